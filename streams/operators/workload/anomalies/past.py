"""Learns what was usual so far, and since when it is not: a few numbers each, updated once a minute."""

from dataclasses import dataclass

RATE = 1 / 60
"""The weight of the newest minute, once an hour is known: after as long, most of what is usual is new."""
_HELD = 3.0
"""A value further off moves the level as if it were so many deviations away."""
RELEARN = 360
"""After so many odd minutes what is odd becomes what is usual."""


@dataclass(slots=True)
class Level:
    """Learns a figure's usual value and its mean absolute deviation (Huber's location, fading), of ``count``
    minutes."""

    count: int = 0
    usual: float = 0.0
    deviation: float = 0.0

    def learn(self, value: float) -> None:
        """Take a minute."""
        self.count += 1
        if self.count == 1:
            self.usual = value
            return
        rate, off = max(1 / self.count, RATE), value - self.usual
        most = _HELD * self.deviation
        self.usual += rate * (off if self.count < 10 else min(max(off, -most), most))
        self.deviation += rate * (abs(off) - self.deviation) if self.count > 2 else abs(off)

    def is_known(self, least: int) -> bool:
        """Tell whether it is of at least so many minutes."""
        return self.count >= least

    def is_usually_above(self, value: float, least: float, spread: float) -> bool:
        """Tell whether ``value`` is lower than usual, by ``least`` and by ``spread`` deviations."""
        return value < self.usual - max(least, spread * self.deviation)


@dataclass(slots=True)
class Suspicion:
    """Counts odd minutes less the others, since the count was 0 last; from ``needed`` on it holds until it is
    0 again."""

    odd: int = 0
    since_ms: int = 0
    holds: bool = False
    minutes: int = 0

    def add(self, start_ms: int, needed: int, *, odd: bool) -> bool:
        """Take a minute that began at ``start_ms``. Whether it holds."""
        if odd and self.odd == 0:
            self.since_ms = start_ms
        self.odd = min(self.odd + 1, needed) if odd else max(self.odd - 1, 0)
        self.holds = self.odd >= needed or (self.holds and self.odd > 0)
        self.minutes = self.minutes + 1 if self.holds else 0
        return self.holds

    @property
    def is_old(self) -> bool:
        """Tell whether it was told for so long that it is what is usual now."""
        return self.minutes >= RELEARN
