"""Keeps the last ticks of one subject, in rings of a fixed size."""

from array import array
from collections.abc import Sequence
from math import nan
from typing import Any

from dutycycle.contract.metering import is_outdated

TICKS = 600
"""Of each subject: ten minutes at one tick a second."""
_FEWER = (TICKS, 300, 150, 100, 50)
_MOST = 1_500_000
"""Ticks of all subjects together: of four metrics 36 MB."""


def ticks_of_each(subjects: int) -> int:
    """Tell how many ticks are kept of each of so many subjects."""
    return next((ticks for ticks in _FEWER if ticks * subjects <= _MOST), _FEWER[-1])


class MetricHistory:
    """Keeps a column of values for each of ``metrics``; NaN is what was not measured. The newest tick is
    last."""

    __slots__ = ("_columns", "_next", "_size", "_ts", "metrics")

    def __init__(self, metrics: Sequence[str], size: int = TICKS) -> None:
        self.metrics = tuple(metrics)
        self._size = size
        self._next = 0
        """Where the next tick goes; the rings grow until they are full."""
        self._ts = array("q")
        self._columns = {name: array("f") for name in metrics}

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
            self._resize(size)
        if ts_ms == self.last_ms or is_outdated(ts_ms, self.last_ms):
            return
        if ts_ms < self.last_ms:
            self._next, self._ts = 0, array("q")
            self._columns = {name: array("f") for name in self._columns}
        known = [nan if value is None else value for value in values]
        if len(self._ts) < self._size:
            self._ts.append(ts_ms)
            for column, value in zip(self._columns.values(), known, strict=True):
                column.append(value)
        else:
            self._ts[self._next] = ts_ms
            for column, value in zip(self._columns.values(), known, strict=True):
                column[self._next] = value
        self._next = (self._next + 1) % self._size

    def times(self, most: int = TICKS) -> Sequence[int]:
        """Return the moments of the newest ticks, oldest first."""
        return self._tail(self._ts, most)

    def values(self, metric: str, most: int = TICKS) -> Sequence[float]:
        """Return the newest values of a metric, oldest first."""
        return self._tail(self._columns[metric], most)

    def _tail(self, column: "array[Any]", most: int) -> "array[Any]":
        """Return the newest of a column: of a full ring the oldest is where the next one goes, else all ends
        there."""
        count = min(len(column), most)
        begin = (self._next - count) % max(len(column), 1)
        if begin + count <= len(column):
            return column[begin : begin + count]
        return column[begin:] + column[: begin + count - len(column)]

    def _resize(self, size: int) -> None:
        self._ts = self._tail(self._ts, size)
        self._columns = {name: self._tail(column, size) for name, column in self._columns.items()}
        self._size, self._next = size, len(self._ts) % size

    def copy(self) -> "MetricHistory":
        """Return it as it is now, whatever is added later."""
        other = MetricHistory(self.metrics, self._size)
        other._next, other._ts = self._next, self._ts[:]
        other._columns = {name: column[:] for name, column in self._columns.items()}
        return other
