"""Sums what all pods of a workload used together, minute by minute, and what comes one period later. Pure.

An autoscaler changes the number of pods, and so the utilization of each. The sum over the pods does not
change with their number, as long as they can bear it: it is the load. So the sum is what is forecast.
"""

from array import array
from math import ceil, isnan, nan

SLOT_MS = 60_000
SLOTS = 1440
"""A day, the longest cycle that is found."""
LEAST_PERIOD_S = 240.0
"""A shorter cycle is over before a pod has started: its mean is what matters."""
_PERIODS = 3


class SeasonalLoad:
    """Keeps the sum over the pods, as the mean of each minute of the last day."""

    def __init__(self) -> None:
        self._sums = array("d", [nan]) * SLOTS
        self._first = self._newest = -1

    def add(self, start_ms: int, end_ms: int, mean: float) -> None:
        """Add one pod's mean over a window."""
        for slot in range(start_ms // SLOT_MS, -(-end_ms // SLOT_MS)):
            overlap_ms = min(end_ms, (slot + 1) * SLOT_MS) - max(start_ms, slot * SLOT_MS)
            amount = mean * overlap_ms / SLOT_MS
            if self._newest < 0:
                self._first = self._newest = slot
            if slot <= self._newest - SLOTS:  # the clock was set back: what it said before was of no such day
                self._sums = array("d", [nan]) * SLOTS
                self._first = self._newest = slot
            for passed in range(max(self._newest + 1, slot - SLOTS + 1), slot + 1):
                self._sums[passed % SLOTS] = nan
            self._newest = max(self._newest, slot)
            before = self._sums[slot % SLOTS]
            self._sums[slot % SLOTS] = amount if isnan(before) else before + amount

    def forecast(self, period_s: float, at_ms: int, known_ms: int) -> float | None:
        """Return the mean of what was there one, two and three periods before ``at_ms``; None without the
        first.

        All minutes that ended before ``known_ms`` are complete. Where one period before is later than that,
        more are gone back.
        """
        period_ms = round(period_s * 1000)
        back = max(1, ceil((at_ms + SLOT_MS - known_ms) / period_ms))
        means = []
        for periods_back in range(back, back + _PERIODS):
            # The mean of that minute; of one in which nothing was measured, or not all of it was seen, none.
            slot = (at_ms - periods_back * period_ms) // SLOT_MS
            is_seen = max(self._first, self._newest - SLOTS) < slot <= self._newest
            if is_seen and not isnan(mean := self._sums[slot % SLOTS]):
                means.append(mean)
            elif periods_back == back:
                return None
        return sum(means) / len(means)
