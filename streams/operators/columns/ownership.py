"""What each pod uses of each GPU, and how that is known: ``contract.records.attribution`` has the words.

A *scope* is where a pod uses something: ``<node>/<gpu index>``, or one process there, ``<node>/<gpu
index>/<pid>``.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, NamedTuple

from contract.records.attribution import ALLOCATED, MEASURED, UNKNOWN, less_sure
from contract.records.samples import Allocation, Gpu, GpuProcess

USE_METRICS = ("gpu_util_pct", "mem_copy_util_pct", "mem_used_bytes")
Cell = float | None
Use = tuple[Cell, Cell, Cell]
"""What is used, in the order of ``USE_METRICS``; None for what was not measured."""
Place = tuple[str, str]
"""Pod uid and scope."""
_use_of = attrgetter(*USE_METRICS)
_FULL_PCT = 100.0


@dataclass(slots=True)
class PodUse:
    """``use`` by pod and scope, GPUs and processes. ``highs``: where the utilization was higher than that for
    a moment, or on one of several slices. ``attribution``: how the use of each GPU is known."""

    use: dict[Place, Use] = field(default_factory=dict)
    highs: dict[Place, float] = field(default_factory=dict)
    attribution: dict[Place, str] = field(default_factory=dict)

    def of_pods(self) -> dict[str, tuple[Cell, ...]]:
        """Each pod over its GPUs, in the order of ``POD_GPU_METRICS``: mean percent, the sum of memory, and
        the busiest GPU's utilization."""
        by_pod: dict[str, list[Use]] = defaultdict(list)
        for (pod_uid, scope), use in self.use.items():
            if scope.count("/") == 1:
                by_pod[pod_uid].append(use)
        return {pod_uid: (*_combined(uses), _busiest(uses)) for pod_uid, uses in by_pod.items()}


def pod_use(node: str, gpus: Iterable[Gpu]) -> PodUse:
    """The pods that use the GPUs of one tick, in the order of the record."""
    found = PodUse()
    for gpu in gpus:
        scope = f"{node}/{gpu.index}"
        high = max(value for _, value in gpu.util_burst) if gpu.util_burst else None
        owned = _add_measured(found, gpu, scope, high)
        if gpu.allocated:
            _add_allocated(found, gpu, scope, None if gpu.mig else high, owned)
    return found


def _add_measured(found: PodUse, gpu: Gpu, scope: str, high: float | None) -> Collection[str]:
    """The pods whose processes are seen on the GPU."""
    owned: dict[str, list[GpuProcess]] = defaultdict(list)
    users = {process.pod_uid for process in gpu.processes or ()}
    for process in gpu.processes or ():
        if process.pod_uid is not None:
            owned[process.pod_uid].append(process)
    for pod_uid, processes in owned.items():
        alone = len(users) == 1
        found.use[pod_uid, scope] = _on_gpu(processes, gpu if alone else None)
        found.attribution[pod_uid, scope] = MEASURED
        if alone and high is not None:
            found.highs[pod_uid, scope] = high
        for process in processes:
            found.use[pod_uid, f"{scope}/{process.pid}"] = _use_of(process)
    return owned


def _on_gpu(processes: list[GpuProcess], device: Gpu | None) -> Use:
    """What its processes use; where they do not tell utilization, the ``device`` does that the pod has
    alone."""
    util, copy = (
        getattr(device, metric, None) if (total := _sum(processes, metric)) is None else min(total, _FULL_PCT)
        for metric in USE_METRICS[:2]
    )
    return util, copy, _sum(processes, "mem_used_bytes")


def _sum(processes: list[GpuProcess], metric: str) -> Cell:
    known = [value for process in processes if (value := getattr(process, metric)) is not None]
    return sum(known) if known else None


def _add_allocated(found: PodUse, gpu: Gpu, scope: str, high: float | None, owned: Collection[str]) -> None:
    """The pods to which the kubelet gave the GPU or slices of it, and of which no process is seen there."""
    by_pod: dict[str, list[Use]] = defaultdict(list)
    for one in holders(gpu.allocated or ()):
        if one.pod_uid in owned:
            continue
        # What others run on the device would be taken for the pod's; on a slice they cannot be.
        use = None if not one.alone or (owned and one.mig is None) else _of_device(gpu, one.mig)
        place = one.pod_uid, scope
        word = UNKNOWN if use is None else ALLOCATED
        found.attribution[place] = less_sure(found.attribution.get(place), word)
        if use is not None:
            by_pod[one.pod_uid].append(use)
    for pod_uid, uses in by_pod.items():
        found.use[pod_uid, scope] = _combined(uses)
        highest = _busiest(uses) if high is None else high
        if highest is not None:
            found.highs[pod_uid, scope] = highest


def _of_device(gpu: Gpu, mig: str | None) -> Use | None:
    """What is measured of the whole GPU, or of its slice ``mig``; None for a slice that is not there."""
    if mig is None:
        return gpu.gpu_util_pct, gpu.mem_copy_util_pct, gpu.mem_used_bytes
    slices = (one for one in gpu.mig or () if one.uuid == mig)
    return next(((one.gpu_util_pct, None, one.mem_used_bytes) for one in slices), None)


def _combined(uses: list[Use]) -> Use:
    """Mean percent and the sum of memory, of at least one use. What is not measured does not count."""
    utils, copies, memories = (
        [cell for cell in column if cell is not None] for column in zip(*uses, strict=True)
    )
    return _mean(utils), _mean(copies), sum(memories) if memories else None


def _mean(known: list[float]) -> Cell:
    return sum(known) / len(known) if known else None


def _busiest(uses: list[Use]) -> Cell:
    return max((util for util, _, _ in uses if util is not None), default=None)


class Holder(NamedTuple):
    """A pod that was given a GPU (``mig`` None) or a slice of it; ``alone``: no other pod was."""

    pod_uid: str
    mig: str | None
    alone: bool


def holders(allocated: Iterable[Allocation]) -> Iterator[Holder]:
    """The pods of a GPU's ``allocated`` whose uid is known, once for each device, in the order of the
    record."""
    by_device: dict[str | None, dict[Any, bool]] = {}
    for one in allocated:
        # A pod without a known uid is one more pod all the same, by its name.
        who = one.pod_uid or (one.namespace, one.pod)
        pods = by_device.setdefault(one.mig, {})
        pods[who] = pods.get(who, False) or bool(one.shared)
    for mig, pods in by_device.items():
        for who, shared in pods.items():
            if isinstance(who, str):
                yield Holder(who, mig, alone=len(pods) == 1 and not shared)
