"""Decides which priorities have a PriorityClass at a time: few of those that are far, all of those that are
near."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from math import floor

from dutycycle.contract.errors import SettingError
from sinks.scheduling.core.policy import Band, Policy

_PARTS = 16
"""A moment that is ``d`` away is rounded by ``d / 16`` at most: far less than predictions are wrong by."""


def quantum(policy: Policy, moment_s: float) -> int:
    """Return the number of the quantum that a moment (Unix seconds) is in; the highest priority of a band has
    0."""
    return floor((moment_s - policy.epoch_s) / policy.quantum_s)


def quanta(first: int, last: int) -> Iterator[int]:
    """Yield those from ``first`` to ``last`` that have a class.

    Steps are powers of two, so one that has a class keeps it while ``first`` comes nearer.
    """
    at = first
    while at <= last:
        yield at
        step = 1 << max(((at - first) // _PARTS).bit_length() - 1, 0)
        at = (at // step + 1) * step


def wanted(policy: Policy, now_s: float) -> set[int]:
    """Return the priorities that shall have a class now, of all bands."""
    near, far = quantum(policy, now_s), quantum(policy, now_s + policy.longest_s)
    return {
        band.high - below for band in policy.bands.values() for below in quanta(near, far)
        if band.high - below >= band.low
    }  # fmt: skip


def usable(policy: Policy, priority: int, now_s: float) -> bool:
    """Tell whether a pod that comes now may get it: its moment is neither past nor beyond the bound."""
    near, far = quantum(policy, now_s), quantum(policy, now_s + policy.longest_s)
    return any(
        near <= band.high - priority <= far for band in policy.bands.values()
        if band.low <= priority <= band.high
    )  # fmt: skip


def nearest(priorities: Sequence[int], band: Band, priority: int) -> int | None:
    """Return the class for a wanted ``priority``, of those there are (ascending); None where the band has
    none.

    The one of the same or an earlier moment: a pod is overtaken by nobody who comes after its delay.
    """
    within = priorities[bisect_left(priorities, band.low) : bisect_left(priorities, band.high + 1)]
    if not within:
        return None
    return within[min(bisect_left(within, priority), len(within) - 1)]


def check_lasts(policy: Policy, now_s: float) -> None:
    """Raises ``SettingError`` for a band that has no priority left, or none yet."""
    if policy.epoch_s > now_s:
        raise SettingError(f"policy epoch_s: {policy.epoch_s:.0f}: is in the future; give one before now")
    for name, band in policy.bands.items():
        if band.high - quantum(policy, now_s + policy.longest_s) <= band.low:
            raise SettingError(
                f"policy bands: {name!r}: {band.low} to {band.high} is used up since epoch_s "
                f"{policy.epoch_s:.0f}: give an epoch_s that is nearer to now ({now_s:.0f})"
            )
