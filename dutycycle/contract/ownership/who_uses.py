"""Works out what each pod uses of each GPU, and how that is known (the words:
``dutycycle.contract.ownership.words``).

A *scope* is where a pod uses something: ``<node>/<gpu index>``, or one process there, ``<node>/<gpu
index>/<pid>``.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dutycycle.contract.ownership.words import ALLOCATED, MEASURED, UNKNOWN, holders, less_sure
from dutycycle.contract.records.samples import Allocation, Gpu

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
USE_METRICS = ("gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes")
Cell = float | None
Place = tuple[str, str]
"""Pod uid and scope."""
_use_of = attrgetter(*USE_METRICS)


class _Source(NamedTuple):
    """Says where the figures of a place are in a ``use_table``.

    ``processes``: of each of its processes, or of its parts of a shared GPU. ``devices``: of the GPU or the
    slices that the pod has to itself, for what its processes do not tell, or where none is seen. ``burst``:
    the GPU, by position, whose bursts are all of this pod: they tell more than its processes do.
    """

    processes: tuple[int, ...] = ()
    devices: tuple[int, ...] = ()
    burst: int | None = None


@dataclass(slots=True)
class UsePlan:
    """Says who uses what on the GPUs of a node, by uuids, allocations, slices and processes.

    ``sources`` by pod and scope, GPUs and processes. ``attribution``: how the use of each GPU is known.
    ``pods``: of each pod its places on GPUs, by position in ``sources``.
    """

    sources: dict[Place, _Source] = field(default_factory=dict)
    attribution: dict[Place, str] = field(default_factory=dict)
    pods: dict[str, list[int]] = field(default_factory=dict)

    def alone(self) -> list[tuple[Place, int]]:
        """Return the pods that have a GPU to themselves, with its position; of each pod the first GPU comes
        last."""
        bursts = [(place, source.burst) for place, source in self.sources.items() if source.burst is not None]
        return sorted(bursts, reverse=True)

    def owned(self) -> dict[Place, tuple[int, ...]]:
        """Return the GPUs and slices that pods have to themselves, as rows of a ``use_table``, by place."""
        return {place: source.devices for place, source in self.sources.items() if source.devices}

    def uses(self, gpus: Sequence[Gpu]) -> Floats:
        """Return what is used at each place, without a compiler: see ``uses_of``. The figures of ``gpus`` are
        those of the whole tick (``contract.metering.with_means``)."""
        use = self.arrays()
        sampled = np.array([bool(gpu.util_burst) for gpu in gpus], np.bool_)
        return uses_of(
            use_table(gpus), use.ends, use.processes, use.device_ends, use.devices, use.bursts, sampled
        )

    def arrays(self) -> "UseArrays":
        """Return the same in numbers."""
        sources, pods = self.sources.values(), self.pods.values()
        return UseArrays(
            ends=np.cumsum([len(source.processes) for source in sources], dtype=np.int64),
            processes=np.array([row for source in sources for row in source.processes], np.int64),
            device_ends=np.cumsum([len(source.devices) for source in sources], dtype=np.int64),
            devices=np.array([row for source in sources for row in source.devices], np.int64),
            bursts=np.array([-1 if source.burst is None else source.burst for source in sources], np.int64),
            pod_ends=np.cumsum([len(places) for places in pods], dtype=np.int64),
            places=np.array([place for places in pods for place in places], np.int64),
        )


class UseArrays(NamedTuple):
    """Holds a ``UsePlan`` in numbers: of each place where its ``processes`` and its ``devices`` end, and its
    ``_Source`` (-1 is None); of each pod where its ``places`` end."""

    ends: Ints
    processes: Ints
    device_ends: Ints
    devices: Ints
    bursts: Ints
    pod_ends: Ints
    places: Ints


def uses_of(
    table: Floats, ends: Ints, processes: Ints, device_ends: Ints, devices: Ints, bursts: Ints, sampled: Bools
) -> Floats:
    """Return what is used at each place, shape (places, ``USE_METRICS``), of a ``use_table``; NaN is unknown.

    What several processes use of one GPU is added; of several devices it is the mean percent, and the sum of
    memory. Percent that no process tells is the devices'; memory is it only where no process is seen.
    ``sampled``: the GPUs whose utilization is the mean of the driver's samples; it counts for the pod that
    has such a GPU alone, too. This is a loop for a compiler; a program that has none can call it as it is.
    """
    uses, begin, first = np.full((ends.size, 3), np.nan), 0, 0
    for place in range(ends.size):
        for metric in range(3):
            total, known = 0.0, 0
            for row in processes[begin : ends[place]]:
                if not np.isnan(table[row, metric]):
                    total += table[row, metric]
                    uses[place, metric] = min(total, 100.0) if metric < 2 else total
            if not np.isnan(uses[place, metric]) or (metric == 2 and ends[place] > begin):
                continue
            for row in devices[first : device_ends[place]]:
                if not np.isnan(table[row, metric]):
                    total += table[row, metric]
                    known += 1
                    uses[place, metric] = total / known if metric < 2 else total
        if bursts[place] >= 0 and sampled[bursts[place]]:
            uses[place, 0] = table[bursts[place], 0]
        begin, first = ends[place], device_ends[place]
    return uses


def highs_of(
    table: Floats, uses: Floats, highest: Floats, ends: Ints, processes: Ints, device_ends: Ints,
    devices: Ints, bursts: Ints,
) -> Floats:  # fmt: skip
    """Return the highest utilization at each place: in the bursts of its GPU, whose ``highest`` are given, or
    on one of several slices, where no process tells it."""
    highs, begin, first = uses[:, 0].copy(), 0, 0
    for place in range(ends.size):
        is_measured = False
        for row in processes[begin : ends[place]]:
            is_measured = is_measured or not np.isnan(table[row, 0])
        if not is_measured:
            for row in devices[first : device_ends[place]]:
                highs[place] = np.fmax(highs[place], table[row, 0])
        if bursts[place] >= 0:
            highs[place] = np.fmax(highs[place], highest[bursts[place]])
        begin, first = ends[place], device_ends[place]
    return highs


def pods_of(uses: Floats, pod_ends: Ints, places: Ints) -> Floats:
    """Return each pod over its GPUs, shape (pods, ``POD_GPU_METRICS``): mean percent, the sum of memory, and
    the busiest GPU's utilization."""
    pods, begin = np.full((pod_ends.size, 4), np.nan), 0
    for pod in range(pod_ends.size):
        for metric in range(3):
            total, known = 0.0, 0
            for place in places[begin : pod_ends[pod]]:
                use = uses[place, metric]
                if metric == 0:
                    pods[pod, 3] = np.fmax(pods[pod, 3], use)
                if not np.isnan(use):
                    total += use
                    known += 1
            if known > 0:
                pods[pod, metric] = total if metric == 2 else total / known
        begin = pod_ends[pod]
    return pods


def use_table(gpus: Sequence[Gpu]) -> Floats:
    """Return the use of each GPU, of each slice, of each process, and then of each allocation; NaN is
    unknown."""
    rows: list[tuple[Cell, ...]] = [_use_of(gpu) for gpu in gpus]
    rows += [(mig.gpu_util_pct, None, mig.mem_used_bytes) for gpu in gpus for mig in gpu.mig or ()]
    rows += [_use_of(process) for gpu in gpus for process in gpu.processes or ()]
    rows += [(part.gpu_util_pct, None, part.mem_used_bytes) for gpu in gpus for part in gpu.allocated or ()]
    return np.array(rows, np.float64).reshape(-1, 3)


def has_part(allocation: Allocation) -> bool:
    """Tell whether a source tells what the container has of a device that pods share."""
    return allocation.gpu_util_pct is not None or allocation.mem_used_bytes is not None


def use_plan(node: str, gpus: Sequence[Gpu]) -> UsePlan:
    """Return the pods that use the GPUs of one tick, in the order of the record."""
    plan = UsePlan()
    slices = len(gpus)
    processes = slices + sum(len(gpu.mig or ()) for gpu in gpus)
    parts = processes + sum(len(gpu.processes or ()) for gpu in gpus)
    for position, gpu in enumerate(gpus):
        scope = f"{node}/{gpu.index}"
        owned = _add_measured(plan, gpu, scope, position, slices, processes)
        if gpu.allocated:
            _add_allocated(plan, gpu, scope, position, slices, parts, owned)
        slices += len(gpu.mig or ())
        processes += len(gpu.processes or ())
        parts += len(gpu.allocated or ())
    for at, (pod_uid, place) in enumerate(plan.sources):
        if place.count("/") == 1:  # a GPU, not a process there
            plan.pods.setdefault(pod_uid, []).append(at)
    return plan


def _add_measured(
    plan: UsePlan, gpu: Gpu, scope: str, position: int, slices: int, begin: int
) -> Collection[str]:
    """Add and return the pods whose processes are seen on the GPU; the use of its first slice is at
    ``slices``, and that of its first process at ``begin``."""
    own_slices: dict[str, list[int]] = defaultdict(list)
    rows_of_slices = {slice_.uuid: slices + at for at, slice_ in enumerate(gpu.mig or ())}
    for holder in holders(gpu.allocated or ()) if rows_of_slices else ():
        if holder.alone and holder.mig in rows_of_slices:
            own_slices[holder.pod_uid].append(rows_of_slices[holder.mig])
    owned: dict[str, dict[int, int]] = defaultdict(dict)
    users = {process.pod_uid for process in gpu.processes or ()}
    for at, process in enumerate(gpu.processes or ()):
        if process.pod_uid is not None:
            owned[process.pod_uid][at] = process.pid
    for pod_uid, pids in owned.items():
        rows = {begin + at: pid for at, pid in pids.items()}
        alone = position if len(users) == 1 else None
        whole = () if alone is None else (position,)
        devices = tuple(own_slices[pod_uid]) or whole  # no driver counts a process on a slice
        plan.sources[pod_uid, scope] = _Source(tuple(rows), devices, alone)
        plan.attribution[pod_uid, scope] = MEASURED
        for row, pid in rows.items():
            plan.sources[pod_uid, f"{scope}/{pid}"] = _Source((row,))
    return owned


def _add_allocated(
    plan: UsePlan, gpu: Gpu, scope: str, position: int, begin: int, parts: int, owned: Collection[str]
) -> None:
    """Add the pods to which the kubelet gave the GPU or slices of it, and of which no process is seen there;
    the use of its first slice is at ``begin``, and that of its first allocation at ``parts``."""
    devices: dict[str | None, int] = {
        mig.uuid: begin + at for at, mig in reversed(list(enumerate(gpu.mig or ())))
    }
    devices[None] = position
    by_pod: dict[str, list[int]] = defaultdict(list)
    of_parts: dict[str, list[int]] = defaultdict(list)
    for at, given in enumerate(gpu.allocated or ()):
        if given.pod_uid is not None and has_part(given):
            of_parts[given.pod_uid].append(parts + at)
    for holder in holders(gpu.allocated or ()):
        if holder.pod_uid in owned:
            continue
        if not holder.alone and holder.mig is None and holder.pod_uid in of_parts:
            plan.attribution[holder.pod_uid, scope] = MEASURED
            plan.sources[holder.pod_uid, scope] = _Source(tuple(of_parts[holder.pod_uid]))
            continue
        # What others run on the device would be taken for the pod's; on a slice they cannot be.
        row = None if not holder.alone or (owned and holder.mig is None) else devices.get(holder.mig)
        place = holder.pod_uid, scope
        word = UNKNOWN if row is None else ALLOCATED
        plan.attribution[place] = less_sure(plan.attribution.get(place), word)
        if row is not None:
            by_pod[holder.pod_uid].append(row)
    for pod_uid, rows in by_pod.items():
        burst = None if gpu.mig else position
        plan.sources[pod_uid, scope] = _Source(devices=tuple(rows), burst=burst)
