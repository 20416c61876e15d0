"""When a climbing series runs into its capacity: a leak, told from a warm-up and from noise.

The level is noted every ``BLOCK_MS``. A series runs out when it climbed through every part of a long
enough stretch, does not slow down, climbs far more than it scatters about its line, and would be full
within ``SOON_S`` at the slower of its recent and its whole slope. Anything less says nothing.
"""

from typing import Any

import numpy as np

from streams.operators.bank_state import Bools, Floats, Ints, pack, remap, unpack

BLOCK_MS = 20_000
BLOCKS = 30
NEEDED = 15
"""Blocks of history before anything is said: five minutes."""
PARTS = 3
SLOWEST = 0.5
"""A part whose slope is less than this share of the whole slope: the climb is not steady, or it ends."""
SIGNIFICANT = 8.0
"""Slope over its standard error, the error taken as if only every fourth block were independent."""
RISE = 0.02
"""Share of the capacity that it has to have climbed in the history."""
SOON_S = 3600.0


class Climb:
    """The recent levels of n series, oldest first; NaN where a series was not seen. Shape (BLOCKS, n)."""

    def __init__(self, n: int) -> None:
        self._levels = np.full((BLOCKS, n), np.nan, np.float32)
        self._seen = np.zeros(n, np.bool_)
        self._block = -1

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._levels = remap(self._levels, keep, np.nan)
        self._seen = remap(self._seen, keep, False)

    def update(self, ts_ms: int, level: Floats, present: Bools) -> None:
        """Note the levels once in each block; what was seen since the last note counts as present."""
        self._seen |= present
        block = ts_ms // BLOCK_MS
        if block == self._block:
            return
        passed = min(block - self._block, BLOCKS) if self._block >= 0 else 1
        self._levels[:-passed] = self._levels[passed:]
        self._levels[-passed:] = np.nan
        np.copyto(self._levels[-1], level, where=self._seen, casting="same_kind")
        self._seen = np.zeros_like(self._seen)
        self._block = block

    def exhausts_in_s(self, columns: Ints, capacity: Floats) -> Floats:
        """Seconds until each column reaches ``capacity``, from now; NaN for one that is not running out."""
        result = np.full(columns.size, np.nan)
        bounded = np.flatnonzero(np.isfinite(capacity))
        for place in bounded:
            result[place] = _time_left(
                self._levels[:, columns[place]].astype(np.float64), float(capacity[place])
            )
        return result

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"block": self._block, "levels": pack(self._levels), "seen": self._seen.tolist()}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same number of columns."""
        self._block = plain["block"]
        self._levels = unpack(plain["levels"], "f4", self._levels.shape)
        self._seen = np.array(plain["seen"], np.bool_)


def _time_left(levels: Floats, capacity: float) -> float:
    """Seconds to ``capacity`` if ``levels`` (one per block, the last now) climb steadily towards it."""
    gaps = np.flatnonzero(np.isnan(levels))
    recent = levels[gaps[-1] + 1 :] if gaps.size else levels
    room = capacity - recent[-1] if recent.size else 0.0
    if recent.size < NEEDED or room <= 0 or recent[-1] - recent[0] < RISE * capacity:
        return float("nan")
    slope, error = _slope(recent)
    parts = [_slope(part)[0] for part in np.array_split(recent, PARTS)]
    if slope < SIGNIFICANT * error or min(parts) < SLOWEST * slope:
        return float("nan")
    left_s = room / min(slope, parts[-1]) * BLOCK_MS / 1000
    return left_s if left_s <= SOON_S else float("nan")


def _slope(levels: Floats) -> tuple[float, float]:
    """Least-squares slope per block, and its standard error with a quarter of the blocks counted."""
    place = np.arange(levels.size) - (levels.size - 1) / 2
    across = float((place**2).sum())
    slope = float((place * levels).sum()) / across
    rest = levels - levels.mean() - slope * place
    return slope, float(np.sqrt((rest**2).sum() / max(levels.size / 4 - 2, 1) / across * 1.0))
