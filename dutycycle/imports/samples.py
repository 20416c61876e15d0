"""Turns rows of GPUs, in any order, into ``nvml-samples``, in bounded memory.

Each node's records are in order of time, and those of several nodes less than a second out of it.
"""

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path
from statistics import fmean, median_low
from typing import Any

import msgspec

from dutycycle.contract.codec import encode
from dutycycle.contract.health.changes import STATE_S
from dutycycle.contract.health.logged import FIELDS, FaultEvents
from dutycycle.contract.metering import FalseZeros
from dutycycle.contract.records.health import HitPod
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import Allocation, Gpu, NvmlSample
from dutycycle.contract.topics import full_name
from dutycycle.contract.trace import TraceRecord
from dutycycle.contract.units import END_OF_TIME_MS
from dutycycle.imports.dealing import APART_MS, Deal, Doubles, find_deal
from dutycycle.imports.energy import EnergyCounters
from dutycycle.imports.quantities import Row
from dutycycle.traces.sorting import Sorting

_MOST_GAPS = 1000
_MOST_TIMES = 100_000
_INTERVAL_MS = 1000
"""Of a log with one tick."""
_MINUTE_MS = 60_000
_RUN_BYTES = 16 * 1024 * 1024
_COLLECTOR = "import"
_NAMESPACE = "import"
_NAMELESS = "?"
"""The uuid of a row that does not say which GPU it is, until rows are dealt out."""
_PARTS = frozenset({"processes", "mig"})
_MANY_GPUS = 20
"""More than a machine has."""
_MOMENT_MS = 5000
"""A slow nvidia-smi needs seconds for a row of each GPU."""
_PART_MS = 100
"""Rows of a GPU's processes and slices stand so close to one another."""
_gpu = msgspec.json.Decoder(Gpu).decode


@dataclass
class _Node:
    """Holds what is known of a node: its GPUs, in the order in which they came, and the time between their
    rows.

    ``in_file``: those with rows in the file that is read, of which there are ``rows_in_file``. ``times_ms``:
    of each GPU that rows name, those of the first ones. ``writers``: of the GPUs whose rows come together in
    each tick, how many there are then. ``uuids``: of the indices whose uuid the log tells. ``stamp_ms``: all
    times are whole minutes, seconds or milliseconds. ``energy_doubts``: why the energy of GPUs is left out,
    by uuid.
    """

    last_ms: dict[str, int] = field(default_factory=dict)
    gaps_ms: list[int] = field(default_factory=list)
    in_file: set[str] = field(default_factory=set)
    rows_in_file: int = 0
    times_ms: dict[str, "array[int]"] = field(default_factory=lambda: defaultdict(lambda: array("q")))
    writers: dict[str, Deal] = field(default_factory=dict)
    uuids: dict[int, str] = field(default_factory=dict)
    nameless_ms: "array[int]" = field(default_factory=lambda: array("q"))
    deal: Deal = field(default_factory=Deal)
    stamp_ms: int = _MINUTE_MS
    false_zeros: FalseZeros = field(default_factory=FalseZeros)
    energy: EnergyCounters = field(default_factory=EnergyCounters)
    energy_doubts: dict[str, str] = field(default_factory=dict)

    def identify(self, row: Row) -> tuple[str, int]:
        """Give the uuid and the index of a row's GPU, of which the log may tell one, or none."""
        uuid, index = row.fields.get("uuid"), row.fields.get("index")
        if uuid is not None and index is not None:
            self.uuids.setdefault(index, uuid)
            return uuid, index
        if uuid is not None:
            return uuid, list(self.last_ms).index(uuid) if uuid in self.last_ms else len(self.last_ms)
        if index is not None:
            return self.uuids.get(index, f"gpu-{index}"), index
        if len(self.nameless_ms) < _MOST_TIMES:
            self.nameless_ms.append(row.ts_ms)
        return _NAMELESS, 0

    def note_time(self, ts_ms: int) -> None:
        """Take the time of a row."""
        if ts_ms % self.stamp_ms:
            self.stamp_ms = 1 if ts_ms % 1000 else 1000

    def interval_ms(self) -> int:
        """Give the usual time between ticks: a mean without the pauses, for each single one is a bit off."""
        if self.deal.interval_ms is not None:
            return self.deal.interval_ms
        if self.writers:
            shares = [(deal.interval_ms or _INTERVAL_MS) / deal.gpus for deal in self.writers.values()]
            return max(round(min(shares)), 1)
        between = [gap for gap in self.gaps_ms if gap > 0]
        usual_ms = median_low(between or [_INTERVAL_MS])
        mean_ms = fmean([gap for gap in between if abs(gap - usual_ms) <= usual_ms / 2] or [usual_ms])
        if self.stamp_ms > 1:  # several ticks of one second or minute are as many parts of it
            mean_ms *= (len(between) + 1) / (len(self.gaps_ms) + 1)
        return max(round(mean_ms), 1)


@dataclass
class _Tick:
    """Gathers rows of one moment by GPU, until a row of the next one comes. ``files``: those of its rows that
    name no GPU, in the order of ``gpus``."""

    node: str
    first_ms: int
    last_ms: int
    gpus: dict[str, Gpu] = field(default_factory=dict)
    files: list[int] = field(default_factory=list)


class Samples:
    """Takes rows, and then gives the records. ``folder`` is the caller's to remove.

    With a ``job`` all GPUs are its own, with a pod for each node. ``undealt``: rows that were left out, since
    their moment had not as many as the others. ``stalled``: energies that stood still while power was drawn.
    ``overfull``: rows with more memory in use than there is, or with none.
    ``doubled``: rows that an earlier file has as well, of the same moment and with the same figures.
    ``unnamed_faults``: rows that tell of faults, and not of which GPU. ``energy_factors``: by which energies
    of all files were multiplied for joules. ``has_cut_times``: some file has times without seconds.
    """

    def __init__(self, folder: Path, prefix: str, job: str | None = None) -> None:
        self._topic, self._pods = full_name(prefix, "nvml-samples"), full_name(prefix, "pods")
        self._job = job
        self._sorting = Sorting(folder, prefix, _RUN_BYTES)
        self._nodes: dict[str, _Node] = {}
        self._events, self._faults = full_name(prefix, "gpu-events"), FaultEvents()
        self.undealt = self.stalled = self.overfull = self.doubled = self.unnamed_faults = self._rows = 0
        self.energy_factors: set[float] = set()
        self.has_cut_times = False
        self._fault_rows: list[tuple[int, str, Gpu, Mapping[str, Any]]] = []
        self._told_faults: dict[tuple[int, str, str], tuple[int, Mapping[str, Any]]] = {}
        """By file, node and GPU: what was kept last, and of when."""
        self._file = 0
        self._begins: list[int] = []
        """Holds how many rows came before each file."""

    @property
    def rows(self) -> int:
        """Count the rows that were taken."""
        return self._rows

    def begin_file(self) -> None:
        """Begin with the rows of another file."""
        self._file += 1
        self._begins.append(self._sorting.count)
        for node in self._nodes.values():
            node.in_file.clear()
            node.rows_in_file = 0

    def count_rows_as_gpus(self) -> int:
        """Give how many GPUs the present file has where each has one row, and not all of one moment: then its
        column of the index counts rows. 0 where it does not: NVIDIA's uuids are of GPUs."""
        for node in self._nodes.values():
            gpus = len(node.in_file)
            are_numbers = not any(uuid.startswith(("GPU-", "MIG-")) for uuid in node.in_file)
            if gpus >= _MANY_GPUS and node.rows_in_file == gpus and are_numbers:
                times_ms = [node.last_ms[uuid] for uuid in node.in_file]
                if max(times_ms) - min(times_ms) > _MOMENT_MS:
                    return gpus
        return 0

    def add(self, node: str, row: Row) -> None:
        """Take a row. Raises ``ValueError`` for values that no GPU has."""
        if not 0 <= row.ts_ms <= END_OF_TIME_MS:
            raise ValueError("is of a time before 1970 or after 2100")
        known = self._nodes.setdefault(node, _Node())
        uuid, index = known.identify(row)
        fields, faults = row.fields, {name: row.fields[name] for name in FIELDS & row.fields.keys()}
        if faults:
            fields = {name: value for name, value in fields.items() if name not in faults}
        gpu = msgspec.convert({**fields, "index": index, "uuid": uuid}, Gpu)
        gpu = known.false_zeros.drop(gpu)
        if gpu.mem_total_bytes is not None and gpu.mem_total_bytes < (gpu.mem_used_bytes or 1):
            gpu = msgspec.structs.replace(
                gpu, mem_used_bytes=None, mem_total_bytes=gpu.mem_total_bytes or None
            )
            self.overfull += 1
        if self._job is not None:
            given = Allocation(pod_uid=f"{self._job}-{node}", namespace=_NAMESPACE, pod=f"{self._job}-{node}")
            gpu = msgspec.structs.replace(gpu, allocated=(given,))
        if known.energy.stands_still(gpu, row.ts_ms):
            gpu = msgspec.structs.replace(gpu, energy_j=None)
            self.stalled += 1
        if faults:
            self._keep_faults(node, gpu, row.ts_ms, faults)
        if not row.fields.keys() & _PARTS:
            # A log may begin with its newest row.
            gap_ms = abs(row.ts_ms - known.last_ms.get(uuid, row.ts_ms))
            if uuid in known.in_file and len(known.gaps_ms) < _MOST_GAPS:
                known.gaps_ms.append(gap_ms)
            known.in_file.add(uuid)
            known.rows_in_file += 1
            if uuid != _NAMELESS and len(known.times_ms[uuid]) < _MOST_GAPS:
                known.times_ms[uuid].append(row.ts_ms)
        known.note_time(row.ts_ms)
        known.last_ms[uuid] = row.ts_ms
        file = 0 if uuid == _NAMELESS else self._file  # equal rows may be of several GPUs
        payload = msgspec.json.encode(gpu)  # not orjson's, which hold a kilobyte each while they wait
        self._sorting.add(
            TraceRecord(
                topic=self._topic, key=node, payload=payload, partition=file,
                offset=self._sorting.count, ts_ms=row.ts_ms,
            )
        )  # fmt: skip
        self._rows += 1

    def _keep_faults(self, node: str, gpu: Gpu, ts_ms: int, faults: Mapping[str, Any]) -> None:
        """Keep what a row tells of faults, unless the row before it in its file told the same a while ago.

        Files come in any order, so what happened is not known before all are read. Of a GPU that its row does
        not name nobody can say it.
        """
        if gpu.uuid == _NAMELESS:
            self.unnamed_faults += 1
            return
        before_ms, before = self._told_faults.get((self._file, node, gpu.uuid), (0, None))
        if before != faults or ts_ms - before_ms >= STATE_S * 1000:
            self._told_faults[self._file, node, gpu.uuid] = (ts_ms, faults)
            self._fault_rows.append((ts_ms, node, gpu, faults))

    def add_record(self, record: TraceRecord) -> None:
        """Take a record of something else than GPUs: it comes out as it is, in order of time."""
        self._sorting.add(replace(record, offset=self._sorting.count))

    def deal_out(self) -> dict[str, int]:
        """Decide how many GPUs the rows are of that do not say it; by node, after the last row."""
        for node in self._nodes.values():
            if node.nameless_ms and not self._is_in_minutes(node):
                node.deal = find_deal(node.nameless_ms)
            deals = {uuid: find_deal(list(set(times_ms))) for uuid, times_ms in node.times_ms.items()}
            node.writers = {uuid: deal for uuid, deal in deals.items() if deal.gpus > 1}
            if node.deal.gpus == 1:  # else counters of several GPUs cannot be told apart
                node.energy_doubts = node.energy.describe_doubts(self.energy_factors)
        return {name: node.deal.gpus for name, node in self._nodes.items() if node.nameless_ms}

    def writers(self) -> dict[str, dict[str, int]]:
        """Give how many rows of a GPU come in each tick, where they are several, by node and uuid."""
        return {
            name: {uuid: deal.gpus for uuid, deal in node.writers.items()}
            for name, node in self._nodes.items() if node.writers
        }  # fmt: skip

    def nodes_in_minutes(self) -> list[str]:
        """Give the nodes of whose times the seconds are lost."""
        return [name for name, node in self._nodes.items() if self._is_in_minutes(node)]

    def _is_in_minutes(self, node: _Node) -> bool:
        """Tell whether the seconds of all times are lost, and several ticks have the same time. Of times that
        are written with their seconds, or as numbers, those of whole minutes are what they are."""
        return self.has_cut_times and node.stamp_ms == _MINUTE_MS and 0 in node.gaps_ms and any(node.gaps_ms)

    def doubtful_energies(self) -> Iterator[tuple[str, str]]:
        """Say of which nodes, and which of their GPUs, the energy is in another unit than joules, and why;
        once rows are dealt out."""
        for name, node in self._nodes.items():
            by_doubt: dict[str, list[str]] = defaultdict(list)
            for uuid, doubt in node.energy_doubts.items():
                by_doubt[doubt].append(uuid)
            for doubt, uuids in by_doubt.items():
                yield (name if len(uuids) == len(node.last_ms) else f"{name}: {', '.join(uuids)}"), doubt

    def nodes(self) -> dict[str, int]:
        """Give the nodes and the milliseconds between their ticks."""
        return {name: node.interval_ms() for name, node in self._nodes.items()}

    def records(self, done: Callable[[], None]) -> Iterator[TraceRecord]:
        """Give all records; ``done`` is called after each row."""
        self.deal_out()
        for ts_ms, name, gpu, faults in sorted(self._fault_rows, key=lambda row: row[0]):
            pods = tuple(
                HitPod(uid=given.pod_uid, namespace=given.namespace, name=given.pod)
                for given in gpu.allocated or () if given.pod_uid is not None
            )  # fmt: skip
            named = {"uuid": gpu.uuid, "index": gpu.index, "model": gpu.model}
            for event in self._faults.events(name, named, ts_ms, faults, pods or None):
                self.add_record(TraceRecord(topic=self._events, key=name, payload=encode(event), ts_ms=ts_ms))
        self._fault_rows.clear()
        intervals_ms = self.nodes()
        spans: dict[str, list[int]] = {}  # from the first to the last tick of each node
        seq = 0
        for tick in self._spread(self._ticks(done)):
            if isinstance(tick, TraceRecord):
                yield tick
                continue
            node = tick.node
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
            seq += 1

        for node, (began_ms, ended_ms) in sorted(spans.items(), key=lambda item: item[1][1]):
            yield from self._pod(node, began_ms, ended_ms)

    def _pod(self, node: str, began_ms: int, ended_ms: int | None = None) -> Iterator[TraceRecord]:
        """Yield the job's pod on a node, when it begins and when it is gone; how it ended is not known."""
        if self._job is None:
            return
        uid = f"{self._job}-{node}"
        pod = Pod(
            uid=uid, namespace=_NAMESPACE, name=uid, node=node, phase="Unknown" if ended_ms else "Running",
            started_ms=began_ms, finished_ms=ended_ms,
            job=JobRef(api_version="dutycycle/v1", kind="Log", name=self._job, uid=self._job),
        )  # fmt: skip
        yield TraceRecord(topic=self._pods, key=uid, payload=encode(pod), ts_ms=ended_ms or began_ms)

    def _ticks(self, done: Callable[[], None]) -> Iterator[_Tick | TraceRecord]:
        """Join rows to ticks: one is over when its GPU comes again, or after ``APART_MS``.

        Rows that do not say their GPU are joined by their distance. A moment that has not as many of them as
        the others is left out, for it is not known which are missing; but not the last, which was cut off.
        """
        doubles = Doubles()
        ticks: dict[str, _Tick] = {}  # by node, the oldest first
        for row in self._sorting.merged():
            if doubles.is_double(row):
                self.doubled += 1
                done()
                continue
            name, ts_ms = row.key or "", row.ts_ms or 0
            while ticks and next(iter(ticks.values())).first_ms + APART_MS <= ts_ms:
                yield from self._complete(ticks.pop(next(iter(ticks))))
            if row.topic != self._topic:
                yield replace(row, offset=None)
                continue
            node, gpu = self._nodes[name], _gpu(row.payload or b"")
            nameless = gpu.uuid == _NAMELESS
            tick = ticks.get(name)
            uuid = node.uuids.get(gpu.index, gpu.uuid) if gpu.uuid == f"gpu-{gpu.index}" else gpu.uuid
            is_apart = tick is not None and ts_ms - tick.last_ms > node.deal.within_ms
            if tick is not None and nameless and (node.deal.gpus == 1 or is_apart):
                yield from self._complete(ticks.pop(name))
            elif tick is not None and not nameless and uuid in tick.gpus:
                joined = _join_parts(tick.gpus[uuid], gpu, ts_ms - tick.last_ms)
                if joined is not None:
                    tick.gpus[uuid] = joined
                    done()
                    continue
                yield from self._complete(ticks.pop(name))
            tick = ticks.setdefault(name, _Tick(name, ts_ms, ts_ms))
            tick.last_ms = ts_ms
            if nameless:
                gpu = msgspec.structs.replace(gpu, index=len(tick.gpus))
                uuid = f"gpu-{gpu.index}"
                tick.files.append(bisect_right(self._begins, row.offset or 0))
            tick.gpus[uuid] = msgspec.structs.replace(gpu, uuid=uuid)
            done()
        for tick in ticks.values():
            yield from self._complete(tick, is_last=True)

    def _complete(self, tick: _Tick, *, is_last: bool = False) -> Iterator[_Tick]:
        node = self._nodes[tick.node]
        deal = node.deal
        wanted = deal.gpus if deal.gpus > 1 else len(tick.gpus)
        if len(tick.gpus) == wanted or (is_last and len(tick.gpus) < wanted):
            for uuid, gpu in tick.gpus.items():
                used = [process.mem_used_bytes for process in gpu.processes or ()]
                if used and gpu.mem_used_bytes is None and None not in used:
                    # A log of processes tells no other memory of the GPU.
                    tick.gpus[uuid] = msgspec.structs.replace(gpu, mem_used_bytes=sum(filter(None, used)))
                if (_NAMELESS if _NAMELESS in node.last_ms else uuid) in node.energy_doubts:
                    tick.gpus[uuid] = msgspec.structs.replace(tick.gpus[uuid], energy_j=None)
            if tick.files != sorted(tick.files):
                # Each of several files has GPUs of its own: their rows come in another order each time.
                pairs = zip(tick.files, tick.gpus.values(), strict=True)
                of_files = [gpu for _, gpu in sorted(pairs, key=itemgetter(0))]
                tick.gpus = {
                    uuid: msgspec.structs.replace(gpu, index=index, uuid=uuid)
                    for index, (uuid, gpu) in enumerate(zip(tick.gpus, of_files, strict=True))
                }
            yield tick
        else:
            self.undealt += len(tick.gpus)

    def _spread(self, ticks: Iterator[_Tick | TraceRecord]) -> Iterator[_Tick | TraceRecord]:
        """Spread several ticks of one second, or minute, over it, where a log's times are whole ones."""
        waiting: dict[str, list[_Tick]] = {}
        for tick in ticks:
            if isinstance(tick, TraceRecord):
                for node in [name for name, same in waiting.items() if same[0].last_ms < (tick.ts_ms or 0)]:
                    yield from self._apart(waiting.pop(node))
            if isinstance(tick, TraceRecord) or self._nodes[tick.node].stamp_ms == 1:
                yield tick
                continue
            for node in [name for name, same in waiting.items() if same[0].last_ms != tick.last_ms]:
                yield from self._apart(waiting.pop(node))
            waiting.setdefault(tick.node, []).append(tick)
        for same in waiting.values():
            yield from self._apart(same)

    def _apart(self, ticks: list[_Tick]) -> Iterator[_Tick]:
        if len(ticks) == 1:
            yield ticks[0]
            return
        whole_ms = _MINUTE_MS if self._is_in_minutes(self._nodes[ticks[0].node]) else 1000
        for number, tick in enumerate(ticks):
            tick.last_ms += whole_ms * number // len(ticks)
            yield tick


def _join_parts(gpu: Gpu, part: Gpu, later_ms: int) -> Gpu | None:
    """Add processes or slices to their GPU; None where they are of the next tick."""
    pids = {process.pid for process in gpu.processes or ()}
    devices = {device.uuid for device in gpu.mig or ()}
    if (
        later_ms > _PART_MS
        or not (part.processes or part.mig)
        or any(process.pid in pids for process in part.processes or ())
        or any(device.uuid in devices for device in part.mig or ())
    ):
        return None
    changes: dict[str, Any] = {}
    if part.processes:
        changes["processes"] = (*(gpu.processes or ()), *part.processes)
    if part.mig:
        changes["mig"] = (*(gpu.mig or ()), *part.mig)
    return msgspec.structs.replace(gpu, **changes)
