"""From rows of GPUs, in any order, to ``nvml-samples``, in bounded memory.

Each node's records are in order of time, and those of several nodes less than a second out of it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median

import msgspec

from contract.codec import encode
from contract.records.samples import Gpu, NvmlSample
from contract.topics import full_name
from contract.trace import TraceRecord
from contract.units import END_OF_TIME_MS
from dutycycle.imports.columns import Row
from dutycycle.traces.sorting import Sorting

_APART_MS = 1000
"""A query takes its time for each GPU: rows of one tick are less than this apart."""
_MOST_GAPS = 1000
_INTERVAL_MS = 1000
"""Of a log with one tick."""
_RUN_BYTES = 16 * 1024 * 1024
_COLLECTOR = "import"
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
    """Takes rows, and then gives the records. ``folder`` is the caller's to remove."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self._topic = full_name(prefix, "nvml-samples")
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
        for seq, (node, tick) in enumerate(self._ticks(done)):
            gpus = tuple(sorted(tick.gpus.values(), key=lambda gpu: (gpu.index, gpu.uuid)))
            sample = NvmlSample(
                node=node, collector=_COLLECTOR, seq=seq, ts_ms=tick.last_ms,
                interval_ms=intervals_ms[node], gpus=gpus,
            )  # fmt: skip
            yield TraceRecord(topic=self._topic, key=node, payload=encode(sample), ts_ms=tick.last_ms)

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
