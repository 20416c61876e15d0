"""Which series are worth a look: one that goes on as it did, and had no rhythm, can wait."""

from typing import Any

import numpy as np

from streams.operators.bank_state import Bools, Floats, Ints, pack, remap, unpack

PATIENT = 3
"""Looks at whole windows in vain after which a series can wait; and again so many."""
FAR = 4.0
"""A mean that is so many times the usual distance off is something new."""
WIDER = 2.0
"""A spread that is so many times the usual one is, too."""
LITTLE = 0.02
"""Share of the mean that is nothing new in any case."""
SLOWLY = 0.1
"""Share of the newest in what is usual."""


class Patience:
    """What is usual in n series, and how often a rhythm was looked for in vain."""

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
        far = (off > FAR * self._off + little) | (spread > WIDER * self._spread + little)
        new = seen & (first | far)
        share = np.where(new, 1.0, SLOWLY)
        self._off = _towards(self._off, np.where(new, spread, off), share, seen)
        self._mean = _towards(self._mean, mean, share, seen)
        self._spread = _towards(self._spread, spread, share, seen)
        self._vain[new] = 0

    def looked(self, columns: Ints, found: Bools) -> None:
        """The whole windows of ``columns`` were looked at, and a rhythm was ``found`` in some."""
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


def _towards(usual: Floats, newest: Floats, share: Floats, seen: Bools) -> Floats:
    moved = np.where(share == 1.0, newest, usual + share * (newest - usual))
    return np.where(seen, moved, usual)
