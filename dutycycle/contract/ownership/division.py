"""Divides a GPU's time among those who have it: the rules are those of ``dutycycle.contract.records.hours``.

A *device* is a GPU, or a slice of it where pods were given slices. It has at least one holder; nobody is one,
too. All this is worked out when the GPUs, pods or processes of a node change, and is arrays from then on.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dutycycle.contract.catalogue import GPU_METRICS, MIG_METRICS
from dutycycle.contract.ownership.who_uses import USE_METRICS, Floats, Ints, UsePlan
from dutycycle.contract.ownership.words import ALLOCATED, MEASURED, UNKNOWN, holders
from dutycycle.contract.records.samples import Gpu, GpuProcess

NOBODY = ""
_POWER, _ENERGY = (GPU_METRICS.index(name) for name in ("power_w", "energy_j"))
_DEVICE_METRICS = ("gpu_util_pct", "sm_active_pct", "tensor_active_pct")
_OF_GPU = tuple(map(GPU_METRICS.index, _DEVICE_METRICS))
_OF_SLICE = tuple(map(MIG_METRICS.index, _DEVICE_METRICS))
NO_PROCESS, NOT_KNOWN, THE_REST = -1, -2, -3
"""Instead of a column of utilization: a holder without a process where others have some; one of which it
cannot be told; processes of nobody, which have what the others leave."""


class Holding(NamedTuple):
    """Holds a pod (or ``NOBODY``) on a GPU, and how that is known. ``model`` is empty where it is not known.

    ``is_untouched``: the pod was given the GPU, and it is seen that none of its processes is there.
    """

    pod_uid: str
    gpu: str
    model: str
    attribution: str
    is_untouched: bool = False


@dataclass(frozen=True, slots=True)
class Holdings:
    """Holds every pod on every GPU: ``rows``, of which the first are those of nobody, one for each GPU.

    ``gpus`` (n, 6): columns of energy and power in the values of a tick, where its devices end, and the
    columns of utilization, SM and tensor activity of the whole.
    ``devices`` (d, 4): the columns of utilization, SM and tensor activity, and where its holders end;
    ``weights`` (d,): the part that it is of its GPU. ``holders`` (h, 2): its row, and its column of
    utilization in the tallies.
    """

    rows: tuple[Holding, ...]
    gpus: Ints
    devices: Ints
    weights: Floats
    holders: Ints


class _Device(NamedTuple):
    """Describes a device. ``columns``: of utilization, SM and tensor activity. ``users``: of each holder, by
    uid, the column of its utilization."""

    columns: tuple[int, ...]
    weight: float
    users: dict[str, int]


def holdings_of(node: str, gpus: Sequence[Gpu], plan: UsePlan) -> Holdings:
    """Return the holdings of one tick, in the order of the record; ``plan``: who uses what there."""
    rows = {(NOBODY, gpu.uuid): Holding(NOBODY, gpu.uuid, gpu.model or "", "") for gpu in gpus}
    of_gpus, devices, of_devices, weights, of_holders = [], 0, [], [], []
    slices = len(gpus) * len(GPU_METRICS)
    for at, gpu in enumerate(gpus):
        scope = f"{node}/{gpu.index}"
        words = {uid: word for (uid, place), word in plan.attribution.items() if place == scope}
        processes = seen_processes(gpu)
        are_known = processes is not None and all(process.pod_uid is not None for process in processes)
        # Columns of utilization in the tallies, of the pods on a GPU: each pod's memory comes before
        tallied = {
            uid: len(plan.pods) + at * len(USE_METRICS)
            for at, (uid, place) in enumerate(plan.sources)
            if place == scope
        }
        for device in _devices(gpu, at, slices, words, tallied):
            devices += 1
            for uid, column in device.users.items():
                word = words.get(uid, "")
                untouched = word in (ALLOCATED, UNKNOWN) and are_known
                rows.setdefault((uid, gpu.uuid), Holding(uid, gpu.uuid, gpu.model or "", word, untouched))
                of_holders.append((list(rows).index((uid, gpu.uuid)), column))
            of_devices.append((*device.columns, len(of_holders)))
            weights.append(device.weight)
        slices += len(gpu.mig or ()) * len(MIG_METRICS)
        first = at * len(GPU_METRICS)
        whole = (first + column for column in _OF_GPU)
        of_gpus.append((first + _ENERGY, first + _POWER, devices, *whole))
    return Holdings(
        tuple(rows.values()), _ints(of_gpus, 6), _ints(of_devices, 4), np.array(weights, np.float64),
        _ints(of_holders, 2),
    )  # fmt: skip


def seen_processes(gpu: Gpu) -> Sequence[GpuProcess] | None:
    """Return the processes on a GPU, None where they are not seen; on a slice no driver counts them."""
    return None if gpu.mig else gpu.processes


def divide(holders: Ints, tallies: Floats, pct: float, parts: Floats) -> bool:
    """Fill ``parts`` with what each of a device's ``holders`` does of the ``pct`` percent that it does. False
    if that cannot be told: then it is divided evenly. A loop for a compiler, as ``energy_part`` is."""
    parts[:] = 1 / len(parts)
    if len(parts) == 1:
        return True
    uses = np.zeros(len(parts))
    for at in range(len(parts)):
        column = holders[at, 1]
        if column >= 0:
            uses[at] = tallies[column]
        elif column == NOT_KNOWN:
            uses[at] = np.nan
    rest = pct - uses.sum()
    for at in range(len(parts)):
        if holders[at, 1] == THE_REST:
            uses[at] = rest if rest > 0 or np.isnan(rest) else 0.0
    total = uses.sum()
    if total == 0 and pct > 0:  # whoever did it, it was none of those without a process
        uses += holders[:, 1] != NO_PROCESS
    every = uses.sum()
    if every > 0:
        for at in range(len(parts)):
            parts[at] = uses[at] / every
    return not np.isnan(total)


def energy_part(size: float, pct: float, every: float) -> float:
    """Return what a device has of its GPU's energy: by size and utilization, if that of each device is known,
    and ``every``, their sum, is not 0; else by size."""
    return size * pct / every if every > 0 else size


def _ints(rows: Sequence[tuple[int, ...]], width: int) -> Ints:
    return np.array(rows, np.int64).reshape(-1, width)


def _devices(
    gpu: Gpu, at: int, slices: int, words: dict[str, str], tallied: dict[str, int]
) -> Iterator[_Device]:
    """Yield the GPU as a whole, or its slices, whose first column is ``slices``."""
    given: dict[str, list[str]] = defaultdict(list)
    for holder in holders(gpu.allocated or ()):
        given[holder.mig or ""].append(holder.pod_uid)
    if not gpu.mig or "" in given or (words and not given):
        columns = tuple(at * len(GPU_METRICS) + place for place in _OF_GPU)
        yield _Device(columns, 1.0, _users(gpu, words, tallied))
        return
    # What each slice is of its GPU, by memory; if that is not known, all are equal
    sizes = [float(mig.mem_total_bytes or 0) for mig in gpu.mig]
    if not all(sizes):
        sizes = [1.0] * len(gpu.mig)
    parts = [size / sum(sizes) for size in sizes]
    for number, (slice_, weight) in enumerate(zip(gpu.mig, parts, strict=True)):
        uids = given[slice_.uuid] + _unnamed(gpu, slice_.uuid) or [NOBODY]
        columns = tuple(slices + number * len(MIG_METRICS) + place for place in _OF_SLICE)
        yield _Device(columns, weight, dict.fromkeys(uids, NOT_KNOWN))


def _unnamed(gpu: Gpu, mig: str | None) -> list[str]:
    """Return nobody if the GPU, or its slice ``mig``, was given to a pod whose uid is not known: what it has
    is no other pod's."""
    is_given = any(given.pod_uid is None and given.mig == mig for given in gpu.allocated or ())
    return [NOBODY] if is_given else []


def _users(gpu: Gpu, words: dict[str, str], tallied: dict[str, int]) -> dict[str, int]:
    """Return the holders of a GPU as a whole."""
    if MEASURED not in words.values():
        uids = [uid for uid, word in words.items() if word in (ALLOCATED, UNKNOWN)] + _unnamed(gpu, None)
        return dict.fromkeys(uids or [NOBODY], NOT_KNOWN)
    # Without processes a source told parts of the GPU: one that it does not tell is not known.
    others = NO_PROCESS if gpu.processes else NOT_KNOWN
    users = {uid: tallied[uid] if word == MEASURED else others for uid, word in words.items()}
    if any(user.pod_uid is None for user in gpu.processes or gpu.allocated or ()):
        users[NOBODY] = THE_REST
        return users
    # Pods that are known by their names alone: if there are more of them than users of whom no allocation
    # tells the uid, the GPU was given to one that is none of the users.
    given = [held for held in gpu.allocated or () if held.mig is None]
    named = {(held.namespace, held.pod) for held in given if held.pod_uid is None}
    if len(named) > len(users.keys() - {held.pod_uid for held in given}):
        users[NOBODY] = NO_PROCESS
    return users
