"""Keeps the last ticks of one subject, in rings of a fixed size."""

from array import array
from collections.abc import Sequence
from math import nan
from typing import Any

from dutycycle.contract.metering import is_outdated

TICKS = 600
"""Of each subject: ten minutes at one tick a second."""
_FEWER = (TICKS, 300, 150, 100, 50)
_MOST = 1_000_000
"""Ticks of all subjects together: of four metrics 24 MB."""


def ticks_of_each(subjects: int) -> int:
    """Tell how many ticks are kept of each of so many subjects."""
    return next((ticks for ticks in _FEWER if ticks * subjects <= _MOST), _FEWER[-1])


class MetricHistory:
    """Keeps the times of ticks and the values of ``metrics``; NaN is what was not measured.

    All values are in one array, tick by tick: a fleet has tens of thousands of histories, and an array for
    each metric would cost more than what is in it.
    """

    __slots__ = ("_next", "_size", "_ts", "_values", "metrics")

    def __init__(self, metrics: Sequence[str], size: int = TICKS) -> None:
        self.metrics = tuple(metrics)
        self._size = size
        self._next = 0
        """Where the next tick goes; the rings grow until they are full."""
        self._ts = array("q")
        self._values = array("f")

    def __len__(self) -> int:
        return len(self._ts)

    @property
    def last_ms(self) -> int:
        """Return the moment of the newest tick, in Unix milliseconds; 0 before the first."""
        return self._ts[self._next - 1] if self._ts else 0

    def add(self, ts_ms: int, values: Sequence[float | None], size: int | None = None) -> None:
        """Take a tick, in the order of ``metrics``. One that is not newer than the last is left out, unless
        the clock was set back: then the history begins anew. ``size``: how many are kept from now on."""
        if size is not None and size != self._size:
            kept = self._tail(self._values, size, len(self.metrics))
            self._ts, self._values = self._tail(self._ts, size), kept
            self._size, self._next = size, len(self._ts) % size
        if ts_ms == self.last_ms or is_outdated(ts_ms, self.last_ms):
            return
        if ts_ms < self.last_ms:
            self._next, self._ts, self._values = 0, array("q"), array("f")
        known = array("f", [nan if value is None else value for value in values])
        if len(self._ts) < self._size:
            self._ts.append(ts_ms)
            self._values.extend(known)
        else:
            width = len(self.metrics)
            self._ts[self._next] = ts_ms
            self._values[self._next * width : (self._next + 1) * width] = known
        self._next = (self._next + 1) % self._size

    def times(self) -> Sequence[int]:
        """Return the moments of the newest ticks, oldest first."""
        return self._tail(self._ts, TICKS)

    def values(self, metric: str, most: int = TICKS) -> Sequence[float]:
        """Return the newest values of a metric, oldest first."""
        place, width = self.metrics.index(metric), len(self.metrics)
        return self._tail(self._values[place::width], most)

    def _tail(self, column: "array[Any]", most: int, width: int = 1) -> "array[Any]":
        """Return the newest of a column with ``width`` numbers a tick: of a full ring the oldest is where the
        next one goes, else all ends there."""
        count = min(len(self._ts), most)
        begin = (self._next - count) % max(len(self._ts), 1)
        column = column if begin == 0 else column[begin * width :] + column[: begin * width]
        return column[: count * width]

    def copy(self) -> "MetricHistory":
        """Return it as it is now, whatever is added later."""
        other = MetricHistory(self.metrics, self._size)
        other._next, other._ts, other._values = self._next, self._ts[:], self._values[:]
        return other
