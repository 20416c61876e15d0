"""Which series are evaluated less often: one that goes on as it did, and had no cycle, can wait."""

from typing import Any

import numpy as np

from streams.operators.columns.arrays import Bools, Floats, Ints, pack, remap, unpack

PATIENCE = 3
"""Evaluations of whole windows without a cycle after which a series can wait; and again so many."""
FURTHER = 2.0
"""So many times the usual distance from the mean, or so many times the usual spread, is something new."""
LITTLE = 0.02
"""Share of the mean that is nothing new in any case."""
SLOWLY = 0.1
"""Share by which what is usual moves towards the newest; distances and spreads grow at once."""


class EvaluationBackoff:
    """What is usual in n series, and how many evaluations in a row found no cycle."""

    def __init__(self, n: int) -> None:
        self._misses: Ints = np.zeros(n, np.int64)
        self._mean, self._off, self._spread = (np.full(n, np.nan) for _ in range(3))

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._misses = remap(self._misses, keep, 0)
        self._mean, self._off, self._spread = (
            remap(one, keep, np.nan) for one in (self._mean, self._off, self._spread)
        )

    def observe(self, mean: Floats, spread: Floats) -> None:
        """Take mean and spread (unit of the metric) of each series' newest samples, NaN where absent.

        A series in which something is new is evaluated at full rate again.
        """
        seen = ~np.isnan(mean)
        first = seen & np.isnan(self._mean)
        off = np.abs(mean - self._mean)
        little = LITTLE * np.abs(mean)
        far = (off > FURTHER * self._off + little) | (spread > FURTHER * self._spread + little)
        new = seen & (first | far)
        self._off = np.where(seen, _largest(self._off, np.where(new, spread, off)), self._off)
        self._spread = np.where(seen, _largest(self._spread, spread), self._spread)
        moved = np.where(new, mean, self._mean + SLOWLY * (mean - self._mean))
        self._mean = np.where(seen, moved, self._mean)
        self._misses[new] = 0

    def evaluated(self, columns: Ints, found: Bools) -> None:
        """The whole windows of ``columns`` were evaluated; ``found`` says which of them have a cycle."""
        self._misses[columns] = np.where(found, 0, self._misses[columns] + 1)

    def level(self, column: int) -> int:
        """0 to 2: the higher, the less often the series need be evaluated."""
        return min(int(self._misses[column]) // PATIENCE, 2)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        usual = [pack(one) for one in (self._mean, self._off, self._spread)]
        return {"misses": self._misses.tolist(), "usual": usual}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same shape."""
        self._misses = np.array(plain["misses"], np.int64)
        shape = self._misses.shape
        self._mean, self._off, self._spread = (unpack(one, "f8", shape) for one in plain["usual"])


def _largest(usual: Floats, newest: Floats) -> Floats:
    return np.asarray(np.fmax((1 - SLOWLY) * usual, newest))
