"""From rows of GPUs, in any order, to ``nvml-samples``, in bounded memory.

Each node's records are in order of time, and those of several nodes less than a second out of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

import msgspec

from dutycycle.contract.codec import encode
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import Allocation, Gpu, NvmlSample
from dutycycle.contract.topics import full_name
from dutycycle.contract.trace import TraceRecord
from dutycycle.contract.units import END_OF_TIME_MS
from dutycycle.imports.columns import Row
from dutycycle.traces.sorting import Sorting

_APART_MS = 1000
"""A query takes its time for each GPU: rows of one tick are less than this apart."""
_MOST_GAPS = 1000
_INTERVAL_MS = 1000
"""Of a log with one tick."""
_RUN_BYTES = 16 * 1024 * 1024
_COLLECTOR = "import"
_NAMESPACE = "import"
_gpu = msgspec.json.Decoder(Gpu).decode


@dataclass
class _Node:
    """What is known of a node: its GPUs, in the order in which they came, and the time between their rows."""

    last_ms: dict[str, int] = field(default_factory=dict)
    gaps_ms: list[int] = field(default_factory=list)

    def interval_ms(self) -> int:
        """The usual time between ticks: a mean without the pauses, for each single one is a bit off."""
        usual_ms = median(self.gaps_ms or [_INTERVAL_MS])
        return round(
            fmean([one for one in self.gaps_ms if abs(one - usual_ms) <= usual_ms / 2] or [usual_ms])
        )


@dataclass
class _Tick:
    """Rows of one moment, by GPU."""

    first_ms: int
    last_ms: int
    gpus: dict[str, Gpu] = field(default_factory=dict)


class Samples:
    """Takes rows, and then gives the records. ``folder`` is the caller's to remove.

    With a ``job`` all GPUs are its own, with a pod for each node.
    """

    def __init__(self, folder: Path, prefix: str, job: str | None = None) -> None:
        self._topic, self._pods = full_name(prefix, "nvml-samples"), full_name(prefix, "pods")
        self._job = job
        self._sorting = Sorting(folder, prefix, _RUN_BYTES)
        self._nodes: dict[str, _Node] = {}

    @property
    def rows(self) -> int:
        """How many were taken."""
        return self._sorting.count

    def add(self, node: str, row: Row) -> None:
        """Take a row. Raises ``ValueError`` for values that no GPU has."""
        if not 0 <= row.ts_ms <= END_OF_TIME_MS:
            raise ValueError("is of a time before 1970 or after 2100")
        known = self._nodes.setdefault(node, _Node())
        uuid = row.fields.get("uuid") or f"gpu-{row.fields.get('index', 0)}"
        index = list(known.last_ms).index(uuid) if uuid in known.last_ms else len(known.last_ms)
        gpu = msgspec.convert({"index": index, **row.fields, "uuid": uuid}, Gpu)
        if self._job is not None:
            given = Allocation(pod_uid=f"{self._job}-{node}", namespace=_NAMESPACE, pod=f"{self._job}-{node}")
            gpu = msgspec.structs.replace(gpu, allocated=(given,))
        gap_ms = row.ts_ms - known.last_ms.get(uuid, row.ts_ms)
        if gap_ms > 0 and len(known.gaps_ms) < _MOST_GAPS:
            known.gaps_ms.append(gap_ms)
        known.last_ms[uuid] = row.ts_ms
        payload = msgspec.json.encode(gpu)  # not orjson's, which hold a kilobyte each while they wait
        self._sorting.add(
            TraceRecord(topic=self._topic, key=node, payload=payload, offset=self.rows, ts_ms=row.ts_ms)
        )

    def nodes(self) -> dict[str, int]:
        """The nodes and the milliseconds between their ticks."""
        return {name: node.interval_ms() for name, node in self._nodes.items()}

    def records(self, done: Callable[[], None]) -> Iterator[TraceRecord]:
        """All records; ``done`` is called after each row."""
        intervals_ms = self.nodes()
        spans: dict[str, list[int]] = {}  # from the first to the last tick of each node
        for seq, (node, tick) in enumerate(self._ticks(done)):
            if node not in spans:
                spans[node] = [tick.last_ms]
                yield from self._pod(node, tick.last_ms)
            spans[node][1:] = [tick.last_ms]
            gpus = tuple(sorted(tick.gpus.values(), key=lambda gpu: (gpu.index, gpu.uuid)))
            sample = NvmlSample(
                node=node, collector=_COLLECTOR, seq=seq, ts_ms=tick.last_ms,
                interval_ms=intervals_ms[node], gpus=gpus,
            )  # fmt: skip
            yield TraceRecord(topic=self._topic, key=node, payload=encode(sample), ts_ms=tick.last_ms)

        for node, (began_ms, ended_ms) in sorted(spans.items(), key=lambda item: item[1][1]):
            yield from self._pod(node, began_ms, ended_ms)

    def _pod(self, node: str, began_ms: int, ended_ms: int | None = None) -> Iterator[TraceRecord]:
        """The job's pod on a node, when it begins and when it is gone; how it ended is not known."""
        if self._job is None:
            return
        uid = f"{self._job}-{node}"
        pod = Pod(
            uid=uid, namespace=_NAMESPACE, name=uid, node=node, phase="Unknown" if ended_ms else "Running",
            started_ms=began_ms, finished_ms=ended_ms,
            job=JobRef(api_version="dutycycle/v1", kind="Log", name=self._job, uid=self._job),
        )  # fmt: skip
        yield TraceRecord(topic=self._pods, key=uid, payload=encode(pod), ts_ms=ended_ms or began_ms)

    def _ticks(self, done: Callable[[], None]) -> Iterator[tuple[str, _Tick]]:
        """A tick is over when its GPU comes again, or after ``_APART_MS``."""
        ticks: dict[str, _Tick] = {}  # by node, the oldest first
        for row in self._sorting.merged():
            node, ts_ms, gpu = row.key or "", row.ts_ms or 0, _gpu(row.payload or b"")
            while ticks and next(iter(ticks.values())).first_ms + _APART_MS <= ts_ms:
                oldest = next(iter(ticks))
                yield oldest, ticks.pop(oldest)
            if node in ticks and gpu.uuid in ticks[node].gpus:
                yield node, ticks.pop(node)
            tick = ticks.setdefault(node, _Tick(ts_ms, ts_ms))
            tick.last_ms = ts_ms
            tick.gpus[gpu.uuid] = gpu
            done()
        yield from ticks.items()
