"""Means over intervals of event time, for looking at cycles that are slower than the ticks."""

from typing import Any

import numpy as np

from streams.operators.columns.arrays import Floats, Ints, pack, remap, unpack


class Means:
    """The mean of each of n series over each interval that begins at a multiple of ``interval_ms``."""

    def __init__(self, interval_ms: int, n: int) -> None:
        self.interval_ms = interval_ms
        self._slot = -1
        self._sum, self._count = np.zeros(n), np.zeros(n)

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._sum, self._count = remap(self._sum, keep, 0.0), remap(self._count, keep, 0.0)

    def add(self, ts_ms: int, values: Floats) -> tuple[int, Floats] | None:
        """Take a tick, NaN is absent. When it is the first of an interval: when the last one began, and
        its means, shape (n,), NaN where nothing was measured."""
        slot, done = ts_ms // self.interval_ms, None
        if slot != self._slot:
            if self._slot >= 0:
                means = np.full(self._sum.size, np.nan)
                np.divide(self._sum, self._count, out=means, where=self._count > 0)
                done = self._slot * self.interval_ms, means
            self._slot = slot
            self._sum[:] = self._count[:] = 0.0
        present = ~np.isnan(values)
        np.add(self._sum, values, out=self._sum, where=present)
        self._count += present
        return done

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"slot": self._slot, "sum": pack(self._sum), "count": pack(self._count)}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same shape."""
        self._slot = plain["slot"]
        self._sum = unpack(plain["sum"], "f8", self._sum.shape)
        self._count = unpack(plain["count"], "f8", self._count.shape)
