"""Finds what happened between two readings of a GPU's counters, and whom it hit: events, none made of what is
unknown."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dutycycle.contract.health.words import meaning_of
from dutycycle.contract.records.health import HealthCounters, HitPod
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import Gpu

STATE_S = 600.0
"""How often a collector says how a GPU is where nothing happens."""
HEARD_OF_MS = round(3 * STATE_S * 1000)
"""What was said of a GPU longer ago does not count: a collector would have said it again by now."""

_GROWING = {
    "ecc_uncorrected": "ecc_uncorrected",
    "rows_remapped_uncorrected": "rows_remapped",
    "pages_retired": "pages_retired",
    "banks_exhausted": "banks_exhausted",
}
_CODES = {"recovery_action": "recovery_action", "fabric_state": "fabric", "fabric_health": "fabric_health"}
_FLAGS = ("remap_pending", "remap_failed", "pages_pending")
_COUNTING = frozenset(
    {
        "ecc_corrected", "pcie_replays", "nvlink_errors", "energy_j", "rows_remapped_corrected", "banks_low",
        "ecc_uncorrected_dram", "ecc_uncorrected_sram", "ecc_lifetime_corrected", "ecc_lifetime_uncorrected",
        "ecc_lifetime_uncorrected_dram", "ecc_lifetime_uncorrected_sram",
    }
)  # fmt: skip
"""Counters that move in a healthy GPU, or beside others, and decide nothing."""


@dataclass(frozen=True, slots=True)
class Change:
    """Holds an event by its kind, ``code`` and ``count`` as in ``GpuEvent``."""

    kind: str
    code: int | None = None
    count: int = 1


def describe(change: Change) -> dict[str, Any]:
    """Give the fields of a ``GpuEvent`` that say what happened, and what is to be done."""
    meaning = meaning_of(change.kind, change.code)
    return {
        "kind": change.kind, "code": change.code, "count": change.count, "severity": meaning.severity,
        "name": meaning.name, "action": meaning.action,
    }  # fmt: skip


def hit_pods(gpu: Gpu, pod_of: Callable[[str], Pod | None] = lambda _: None) -> tuple[HitPod, ...] | None:
    """Return the pods whose processes are on it; where there are none, those that were given it. None where
    that is not known. ``pod_of``: the pod with a uid, if it is known."""
    if gpu.processes is None and gpu.allocated is None:
        return None
    uids = dict.fromkeys(process.pod_uid for process in gpu.processes or () if process.pod_uid is not None)
    given = {
        allocation.pod_uid: allocation for allocation in gpu.allocated or () if allocation.pod_uid is not None
    }
    pods = []
    for uid in uids or given:
        pod, allocation = pod_of(uid), given.get(uid)
        if pod is not None:
            pods.append(HitPod(uid=uid, namespace=pod.namespace, name=pod.name, job=pod.job))
        elif allocation is not None:
            pods.append(HitPod(uid=uid, namespace=allocation.namespace, name=allocation.pod))
        else:
            pods.append(HitPod(uid=uid))
    # Given to somebody whose uid is not known, it is not nobody's.
    return None if gpu.allocated and not pods else tuple(pods)


def changes(before: HealthCounters | None, now: HealthCounters) -> Iterator[Change]:
    """Yield what happened since ``before``; None: this is the first reading, and no change can be told.

    A counter that fell began anew: what it counts now happened since.
    """
    if before is None:
        return
    fresh = began_anew(before, now)
    for field, kind in _GROWING.items():
        old, new = getattr(before, field), getattr(now, field)
        old = 0 if old is not None and fresh and field == "ecc_uncorrected" else old
        if old is not None and new is not None and new > old:
            yield Change(kind, count=new - old)
    for flag in _FLAGS:
        if getattr(now, flag) and getattr(before, flag) is False:
            yield Change(flag)
    for field, kind in _CODES.items():
        old, new = getattr(before, field), getattr(now, field)
        if old is not None and new is not None and new != old:
            yield Change(kind, new)
    if before.nvlinks_active is not None and now.nvlinks_active is not None:
        lost = before.nvlinks_active - now.nvlinks_active
        if lost:
            yield Change("nvlink_down" if lost > 0 else "nvlink_up", count=abs(lost))


def began_anew(before: HealthCounters, now: HealthCounters) -> bool:
    """Tell whether the GPU was reset, or its driver loaded anew: counters that start then have fallen."""
    names = ("ecc_corrected", "ecc_uncorrected")
    pairs = [(getattr(before, name), getattr(now, name)) for name in names]
    if now.energy_j != 0:  # at 0 it was not read
        pairs.append((before.energy_j, now.energy_j))
    return any(old is not None and new is not None and new < old for old, new in pairs)


def is_judged_alike(before: HealthCounters | None, now: HealthCounters) -> bool:
    """Tell whether all that a verdict rests on is as before."""
    return before is not None and all(
        getattr(before, name) == getattr(now, name)
        for name in HealthCounters.__struct_fields__
        if name not in _COUNTING
    )
