"""Which series are worth a look: one that goes on as it did, and had no cycle, can wait."""

from typing import Any

import numpy as np

from streams.operators.columns.arrays import Bools, Floats, Ints, pack, remap, unpack

PATIENT = 3
"""Looks at whole windows in vain after which a series can wait; and again so many."""
FURTHER = 2.0
"""What is so many times the usual distance off, or spreads so many times as wide, is something new."""
LITTLE = 0.02
"""Share of the mean that is nothing new in any case."""
SLOWLY = 0.1
"""Share by which what is usual moves towards the newest; distances and spreads grow at once."""


class Patience:
    """What is usual in n series, and how often a cycle was looked for in vain."""

    def __init__(self, n: int) -> None:
        self._vain: Ints = np.zeros(n, np.int64)
        self._mean, self._off, self._spread = (np.full(n, np.nan) for _ in range(3))

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._vain = remap(self._vain, keep, 0)
        self._mean, self._off, self._spread = (
            remap(one, keep, np.nan) for one in (self._mean, self._off, self._spread)
        )

    def notice(self, mean: Floats, spread: Floats) -> None:
        """Take the mean and the spread of each series' newest samples, NaN where there are none."""
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
        self._vain[new] = 0

    def looked(self, columns: Ints, found: Bools) -> None:
        """The whole windows of ``columns`` were looked at, and a cycle was ``found`` in some."""
        self._vain[columns] = np.where(found, 0, self._vain[columns] + 1)

    def level(self, column: int) -> int:
        """0 to 2: how often nothing was found in a series that is as it was then."""
        return min(int(self._vain[column]) // PATIENT, 2)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        usual = [pack(one) for one in (self._mean, self._off, self._spread)]
        return {"vain": self._vain.tolist(), "usual": usual}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same shape."""
        self._vain = np.array(plain["vain"], np.int64)
        shape = self._vain.shape
        self._mean, self._off, self._spread = (unpack(one, "f8", shape) for one in plain["usual"])


def _largest(usual: Floats, newest: Floats) -> Floats:
    return np.asarray(np.fmax((1 - SLOWLY) * usual, newest))
