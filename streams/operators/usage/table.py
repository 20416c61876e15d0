"""Keeps the figures of an hour so far, a row for each of its keys; and which of them changed."""

from typing import Any

import numpy as np

from streams.operators.columns.arrays import Floats, Ints, pack, unpack

OnGpu = tuple[str, str]
"""A pod's uid and a GPU's UUID, which is empty for what a pod uses of the host."""
CHANGED = 0
"""The column that is 1 from a change of the row until it is written."""
_ROOM = 16


class HourTable:
    """Keeps the figures of an hour. ``figures`` has shape (rows, 1 + figures), with room for more rows; its
    first column is ``CHANGED``."""

    def __init__(self, figures: int) -> None:
        self.keys: list[tuple[str, ...]] = []
        self._row: dict[tuple[str, ...], int] = {}
        self.figures: Floats = np.zeros((_ROOM, 1 + figures))

    def rows(self, keys: list[tuple[str, ...]]) -> Ints:
        """Return the row of each key, shape (n,); a new key gets a row of zeros."""
        for key in keys:
            if key not in self._row:
                self._row[key] = len(self.keys)
                self.keys.append(key)
        if len(self.keys) > len(self.figures):
            wider = np.zeros((2 * len(self.keys), self.figures.shape[1]))
            wider[: len(self.figures)] = self.figures
            self.figures = wider
        return np.fromiter((self._row[key] for key in keys), np.int64, len(keys))

    def changed(self, *, keep: bool = False) -> list[tuple[tuple[str, ...], list[float]]]:
        """Return the rows that changed since they were written, and their figures. They are written now,
        unless the changes are to be kept."""
        rows = np.flatnonzero(self.figures[:, CHANGED])
        if not keep:
            self.figures[rows, CHANGED] = 0
        return [(self.keys[row], self.figures[row, 1:].tolist()) for row in rows.tolist()]

    def clear(self) -> None:
        """Clear all rows for another hour."""
        self.keys, self._row = [], {}
        self.figures = np.zeros_like(self.figures[:_ROOM])

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return {"keys": [list(key) for key in self.keys], "figures": pack(self.figures[: len(self.keys)])}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self.clear()
        self.rows([tuple(key) for key in plain["keys"]])
        if self.keys:
            shape = len(self.keys), self.figures.shape[1]
            self.figures[: len(self.keys)] = unpack(plain["figures"], "f8", shape)
