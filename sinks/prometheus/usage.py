"""Which pods use a GPU at one tick, and how much of it is each one's. Pure.

The rules are those of the streams (``streams/operators/columns/ownership.py``; a test compares them), by GPU
instead of by column, with the shares of a counter that only the device has.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dutycycle.contract.attribution import ALLOCATED, MEASURED, UNKNOWN, holders, less_sure
from dutycycle.contract.records.samples import Gpu, GpuProcess, MigDevice

_MOST = 1 + 1e-9
"""The parts of a device together, but for rounding."""
SHARED = "shared"
"""Attribution of energy that only the device counts, and that several use."""


@dataclass(frozen=True, slots=True)
class PodGpuUse:
    """A pod's use of one GPU. ``util_pct`` and ``mem_bytes`` None: not known, which is not idle.

    ``alone``: all that the device does is this pod's. ``share``: its part of the device's energy, 0 to 1;
    None where nothing tells it.
    """

    pod_uid: str
    attribution: str
    util_pct: float | None = None
    mem_bytes: float | None = None
    alone: bool = False
    share: float | None = None


def uses(gpu: Gpu) -> list[PodGpuUse]:
    """Every pod that uses the GPU or was given it: those with processes, then the others."""
    measured = _measured(gpu)
    found = [*measured.values(), *_allocated(gpu, measured)]
    if sum(use.share or 0 for use in found) > _MOST:  # the GPU is one's, and a slice of it another's
        return [replace(use, share=None) if use.share == 1 else use for use in found]
    return found


def _measured(gpu: Gpu) -> dict[str, PodGpuUse]:
    """The pods whose processes are seen on the GPU, by uid."""
    groups: dict[str | None, list[GpuProcess]] = defaultdict(list)
    for process in gpu.processes or ():
        groups[process.pod_uid].append(process)
    utils = {user: _util(processes) for user, processes in groups.items()}
    alone = len(groups) == 1
    shares = dict.fromkeys(groups, 1.0) if alone else {} if gpu.mig else _by_weight(utils)
    slices = _slices_of(gpu)
    found = {}
    for user, processes in groups.items():
        if user is None:
            continue
        util, word, share = utils[user], MEASURED, shares.get(user)
        if alone and (util is None or gpu.util_burst):
            util = gpu.gpu_util_pct
        if util is None and user in slices:  # no driver counts a process on a slice
            util, word = _mean(one.gpu_util_pct for one in slices[user]), ALLOCATED
        if share is None and user in slices:
            share = _share_of_slices(gpu, slices[user])
        memory = _sum(process.mem_used_bytes for process in processes)
        found[user] = PodGpuUse(user, word, util, memory, alone, share)
    return found


def _allocated(gpu: Gpu, measured: Mapping[str, PodGpuUse]) -> list[PodGpuUse]:
    """The pods that the kubelet gave the GPU or slices of it, and of which no process is seen there."""
    words: dict[str, str] = {}
    devices: dict[str, list[Gpu | MigDevice]] = defaultdict(list)
    slices = {one.uuid: one for one in gpu.mig or ()}
    for holder in holders(gpu.allocated or ()):
        if holder.pod_uid in measured:
            continue
        device = gpu if holder.mig is None else slices.get(holder.mig)
        # What others run on the device would be taken for the pod's; on a slice they cannot be.
        if not holder.alone or (measured and holder.mig is None):
            device = None
        words[holder.pod_uid] = less_sure(words.get(holder.pod_uid), UNKNOWN if device is None else ALLOCATED)
        if device is not None:
            devices[holder.pod_uid].append(device)
    found = []
    for pod_uid, word in words.items():
        mine = devices[pod_uid]
        whole = any(isinstance(device, Gpu) for device in mine)
        found.append(
            PodGpuUse(
                pod_uid,
                word,
                _mean(device.gpu_util_pct for device in mine),
                _sum(device.mem_used_bytes for device in mine),
                alone=whole and not gpu.mig,
                share=1.0
                if whole
                else _share_of_slices(gpu, [one for one in mine if isinstance(one, MigDevice)]),
            )
        )
    return found


def _slices_of(gpu: Gpu) -> dict[str, list[MigDevice]]:
    """The slices that a pod was given and shares with nobody, by uid."""
    slices = {one.uuid: one for one in gpu.mig or ()}
    slices_by_pod: dict[str, list[MigDevice]] = defaultdict(list)
    for holder in holders(gpu.allocated or ()):
        if holder.alone and holder.mig in slices:
            slices_by_pod[holder.pod_uid].append(slices[holder.mig])
    return slices_by_pod


def _share_of_slices(gpu: Gpu, mine: list[MigDevice]) -> float | None:
    """The part of the energy that these slices use: by size, and by utilization where it is known of all."""
    every = gpu.mig or ()
    if not mine or not all(one.mem_total_bytes for one in every):
        return None
    sizes = {one.uuid: float(one.mem_total_bytes or 0) for one in every}
    weights = {one.uuid: sizes[one.uuid] * (one.gpu_util_pct or 0) for one in every}
    if any(one.gpu_util_pct is None for one in every) or not sum(weights.values()):
        weights = sizes
    return sum(weights[one.uuid] for one in mine) / sum(weights.values())


def _by_weight(utils: Mapping[Any, float | None]) -> dict[Any, float]:
    """Shares by utilization; equal ones while nobody computes; none if that of somebody is not known."""
    known = {user: util for user, util in utils.items() if util is not None}
    if len(known) < len(utils):
        return {}
    total = sum(known.values())
    return {user: util / total if total else 1 / len(known) for user, util in known.items()}


def _util(processes: Iterable[GpuProcess]) -> float | None:
    util = _sum(process.gpu_util_pct for process in processes)
    return None if util is None else min(util, 100)


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
