"""Writes a figure that keeps changing less and less often: noise, and what swings with a cycle. Pure.

The first change of a figure is written at once. Each further one has to wait twice as long as the one before,
an hour at most, counted from the last write of the object: whatever that was for, it wrote this figure, too.
So the value that is there is never older than the time for which the figure has been changing.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

MOST = 120
"""The longest wait, in intervals: an hour, by default."""
CALM = 2 * MOST
"""A figure that did not change for so many intervals begins anew."""


@dataclass(slots=True)
class Damping:
    """Remembers the figures of one object that changed a while ago, by name: how long each waits, and since
    when."""

    _waits: dict[str, tuple[int, float]] = field(default_factory=dict)

    def wrote(self, changed: Iterable[str], now: float, interval_s: float) -> None:
        """Note that a write at ``now`` had these figures, changed by enough to matter."""
        calm_at = now - CALM * interval_s
        self._waits = {name: wait for name, wait in self._waits.items() if wait[1] > calm_at}
        for name in changed:
            before, _ = self._waits.get(name, (0, now))
            self._waits[name] = min(2 * before, MOST) or 1, now

    def waiting(self, since_s: float, interval_s: float) -> Collection[str]:
        """Return the figures whose change is no reason to write, ``since_s`` after the last write of the
        object."""
        return {name for name, (wait, _) in self._waits.items() if since_s < wait * interval_s}
