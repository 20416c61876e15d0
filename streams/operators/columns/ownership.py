"""What each pod uses of each GPU, and how that is known: ``contract.records.attribution`` has the words.

A *scope* is where a pod uses something: ``<node>/<gpu index>``, or one process there, ``<node>/<gpu
index>/<pid>``.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from contract.records.attribution import ALLOCATED, MEASURED, UNKNOWN, holders, less_sure
from contract.records.samples import Gpu

USE_METRICS = ("gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes")
Cell = float | None
Cells = list[Cell]
"""Three of them, in the order of ``USE_METRICS``, are what is used; None for what was not measured."""
Place = tuple[str, str]
"""Pod uid and scope."""
_use_of = attrgetter(*USE_METRICS)
_shape_of_gpu = attrgetter("uuid", "index", "allocated")
_shape_of_process = attrgetter("pid", "pod_uid")
_FULL_PCT = 100.0


class _Source(NamedTuple):
    """Where the figures of a place are among the cells of a tick.

    ``rows``: where the use of each of its processes begins (``measured``), or of each device that it was
    given. ``device``: where that of a GPU begins which the pod has alone, for what its processes do not tell.
    ``burst``: the GPU, by position, whose bursts are all of this pod.
    """

    rows: tuple[int, ...]
    measured: bool = True
    device: int | None = None
    burst: int | None = None


@dataclass(slots=True)
class UsePlan:
    """Who uses what on the GPUs of a node: the same as long as ``shape_of`` is.

    ``sources`` by pod and scope, GPUs and processes. ``attribution``: how the use of each GPU is known.
    ``pods``: of each pod its places on GPUs, by position in ``sources``.
    """

    sources: dict[Place, _Source] = field(default_factory=dict)
    attribution: dict[Place, str] = field(default_factory=dict)
    pods: dict[str, list[int]] = field(default_factory=dict)
    sliced: bool = False
    """Whether a pod was given several slices of one GPU."""

    def alone(self) -> list[tuple[Place, int]]:
        """The pods that have a GPU to themselves, with its position; of each pod the first GPU comes last."""
        found = [(place, one.burst) for place, one in self.sources.items() if one.burst is not None]
        return sorted(found, reverse=True)

    def uses(self, cells: Cells) -> list[Cells]:
        """What is used at each place, of ``cells_of`` the tick."""
        return [_use(cells, source) for source in self.sources.values()]

    def of_pods(self, uses: list[Cells]) -> dict[str, Cells]:
        """Each pod over its GPUs, in the order of ``POD_GPU_METRICS``: mean percent, the sum of memory, and
        the busiest GPU's utilization."""
        found: dict[str, Cells] = {}
        for pod_uid, places in self.pods.items():
            mine = [uses[at] for at in places]
            found[pod_uid] = [*_combined(mine), _most([use[0] for use in mine])]
        return found

    def highs(self, cells: Cells, uses: list[Cells], bursts: Cells) -> Cells:
        """The highest utilization at each place: in a burst of its GPU, or on one of several slices."""
        return [
            _high(cells, use[0], source, bursts)
            for use, source in zip(uses, self.sources.values(), strict=True)
        ]


def shape_of(gpus: Iterable[Gpu]) -> list[Any]:
    """What a plan depends on."""
    return [
        (
            _shape_of_gpu(gpu),
            [one.uuid for one in gpu.mig] if gpu.mig else None,
            [_shape_of_process(one) for one in gpu.processes] if gpu.processes else None,
        )
        for gpu in gpus
    ]


def cells_of(gpus: Sequence[Gpu]) -> Cells:
    """The use of each GPU, then that of each slice, then that of each process."""
    cells: Cells = []
    for gpu in gpus:
        cells += _use_of(gpu)
    for gpu in gpus:
        for slice_ in gpu.mig or ():
            cells += slice_.gpu_util_pct, None, slice_.mem_used_bytes
    for gpu in gpus:
        for process in gpu.processes or ():
            cells += _use_of(process)
    return cells


def use_plan(node: str, gpus: Sequence[Gpu]) -> UsePlan:
    """The pods that use the GPUs of one tick, in the order of the record."""
    plan = UsePlan()
    slices = len(USE_METRICS) * len(gpus)
    processes = slices + len(USE_METRICS) * sum(len(gpu.mig or ()) for gpu in gpus)
    for position, gpu in enumerate(gpus):
        scope = f"{node}/{gpu.index}"
        owned = _add_measured(plan, gpu, scope, position, processes)
        if gpu.allocated:
            _add_allocated(plan, gpu, scope, position, slices, owned)
        slices += len(USE_METRICS) * len(gpu.mig or ())
        processes += len(USE_METRICS) * len(gpu.processes or ())
    for at, (pod_uid, place) in enumerate(plan.sources):
        if place.count("/") == 1:  # a GPU, not a process there
            plan.pods.setdefault(pod_uid, []).append(at)
    return plan


def _add_measured(plan: UsePlan, gpu: Gpu, scope: str, position: int, begin: int) -> Collection[str]:
    """The pods whose processes are seen on the GPU; the use of its first process is at ``begin``."""
    owned: dict[str, dict[int, int]] = defaultdict(dict)
    users = {process.pod_uid for process in gpu.processes or ()}
    for at, process in enumerate(gpu.processes or ()):
        if process.pod_uid is not None:
            owned[process.pod_uid][at] = process.pid
    for pod_uid, pids in owned.items():
        rows = {begin + len(USE_METRICS) * at: pid for at, pid in pids.items()}
        alone = len(users) == 1
        device, burst = (len(USE_METRICS) * position, position) if alone else (None, None)
        plan.sources[pod_uid, scope] = _Source(tuple(rows), device=device, burst=burst)
        plan.attribution[pod_uid, scope] = MEASURED
        for row, pid in rows.items():
            plan.sources[pod_uid, f"{scope}/{pid}"] = _Source((row,))
    return owned


def _add_allocated(
    plan: UsePlan, gpu: Gpu, scope: str, position: int, begin: int, owned: Collection[str]
) -> None:
    """The pods to which the kubelet gave the GPU or slices of it, and of which no process is seen there; the
    use of its first slice is at ``begin``."""
    devices: dict[str | None, int] = {
        one.uuid: begin + len(USE_METRICS) * at for at, one in reversed(list(enumerate(gpu.mig or ())))
    }
    devices[None] = len(USE_METRICS) * position
    by_pod: dict[str, list[int]] = defaultdict(list)
    for one in holders(gpu.allocated or ()):
        if one.pod_uid in owned:
            continue
        # What others run on the device would be taken for the pod's; on a slice they cannot be.
        row = None if not one.alone or (owned and one.mig is None) else devices.get(one.mig)
        place = one.pod_uid, scope
        word = UNKNOWN if row is None else ALLOCATED
        plan.attribution[place] = less_sure(plan.attribution.get(place), word)
        if row is not None:
            by_pod[one.pod_uid].append(row)
    for pod_uid, rows in by_pod.items():
        burst = None if gpu.mig else position
        plan.sources[pod_uid, scope] = _Source(tuple(rows), measured=False, burst=burst)
        plan.sliced |= len(rows) > 1


def _use(cells: Cells, source: _Source) -> Cells:
    rows, measured, device, _ = source
    if len(rows) == 1:
        use = cells[rows[0] : rows[0] + 3]
    else:
        uses = [cells[row : row + 3] for row in rows]
        use = _added(uses) if measured else _combined(uses)
    if device is not None:
        if use[0] is None:
            use[0] = cells[device]
        if use[1] is None:
            use[1] = cells[device + 1]
    return use


def _high(cells: Cells, util: Cell, source: _Source, bursts: Cells) -> Cell:
    rows, measured, _, gpu = source
    found = [util] if measured else [util, *(cells[row] for row in rows)]
    if gpu is not None:
        found.append(bursts[gpu])
    return _most(found)


def _added(uses: list[Cells]) -> Cells:
    """What several processes use of one GPU."""
    util, copy, memory = (_sum(column) for column in zip(*uses, strict=True))
    return [*(None if pct is None else min(pct, _FULL_PCT) for pct in (util, copy)), memory]


def _combined(uses: list[Cells]) -> Cells:
    """Mean percent and the sum of memory, of at least one use. What is not measured does not count."""
    utils, copies, memories = zip(*uses, strict=True)
    return [_mean(utils), _mean(copies), _sum(memories)]


def _sum(column: Iterable[Cell]) -> Cell:
    known = [cell for cell in column if cell is not None]
    return sum(known) if known else None


def _mean(column: Iterable[Cell]) -> Cell:
    known = [cell for cell in column if cell is not None]
    return sum(known) / len(known) if known else None


def _most(column: Iterable[Cell]) -> Cell:
    return max((cell for cell in column if cell is not None), default=None)
