"""A pod's figures for the comparison with the other ranks of its job, at times that are the same for all."""

from collections.abc import Mapping
from typing import Any

from streams.operators.workload.rules.figures import short

COMPARED = ("gpu_util_pct", "power_pct")
"""Kernels that wait for other ranks keep the utilization up, but the power down."""
BEAT_MS = 180_000
"""So far apart are those times, aligned to the epoch; a job hears of its pods at each."""
MOVED_PCT = 10.0
"""What moved by less is no news: the figures stay as they were."""
REFRESH_MS = 900_000
SETTLED_PCT = 2.5
"""So much may they be off for longer than a quarter of an hour."""


class Beats:
    """The figures at the last two beats. ``moved_ms``: when they became what they are; 0: there are none."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}
        self.before: dict[str, float] = {}
        self.moved_ms = 0
        self.beat_ms = 0

    def is_due(self, ts_ms: int) -> bool:
        """Whether there was a beat since the last one. The first call begins: that beat is to come."""
        beat_ms = ts_ms - ts_ms % BEAT_MS
        if self.beat_ms == 0:
            self.beat_ms = beat_ms
        return beat_ms > self.beat_ms

    def take(self, ts_ms: int, recent: Mapping[str, float]) -> None:
        """Take the means of the minutes before ``ts_ms``, at which a beat is due."""
        self.beat_ms = ts_ms - ts_ms % BEAT_MS
        now = {name: short(recent[name]) for name in COMPARED if name in recent}
        self.before = self.figures
        allowed = SETTLED_PCT if self.beat_ms % REFRESH_MS == 0 else MOVED_PCT
        if _differs(now, self.figures, allowed):
            self.figures, self.moved_ms = now, self.beat_ms

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "figures": dict(self.figures),
            "before": dict(self.before),
            "moved_ms": self.moved_ms,
            "beat_ms": self.beat_ms,
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.figures, self.before = dict(plain["figures"]), dict(plain["before"])
        self.moved_ms, self.beat_ms = plain["moved_ms"], plain["beat_ms"]


def _differs(one: Mapping[str, float], other: Mapping[str, float], allowed: float) -> bool:
    return one.keys() != other.keys() or any(abs(one[name] - other[name]) > allowed for name in one)
