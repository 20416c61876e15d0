"""When a climbing series runs into its capacity: a leak, told from a warm-up and from noise.

The level is noted every ``BLOCK_MS``. A series runs out when it climbed through every part of the
history, far more than it scatters, does not bend towards a rest below the capacity, and would be full
within ``SOON_S`` at its present slope. Anything less says nothing.
"""

from typing import Any

import numpy as np

from streams.operators.bank_state import Floats, Ints, pack, remap, unpack
from streams.operators.trend_holt import COUNT, LEVEL, SEEN_MS, Holt

BLOCK_MS = 20_000
BLOCKS = 30
"""Ten minutes of history; with less, nothing is said: loading a model climbs as straight as a leak."""
PARTS = 5
SLOWEST = 0.6
"""A part that climbs less than this share of what a steady climb would: it pauses, or it ends."""
LATELY, STILL = 3, 0.4
"""So many blocks up to now have to climb by this share of a steady climb: it may have ended just now."""
SIGNIFICANT = 8.0
"""Slope over its standard error."""
SIGMAS = 2.0
"""A climb may bend down by so many standard errors more than it seems to."""
RISE = 0.01
"""Share of the capacity that it has to have climbed in the history."""
SOON_S = 3600.0

_PLACE = np.arange(BLOCKS) - (BLOCKS - 1) / 2
_DESIGN = np.stack((_PLACE**2, _PLACE, np.ones(BLOCKS)), axis=1)
_SOLVE = np.linalg.pinv(_DESIGN)


class Climb:
    """The recent levels of n series, oldest first; NaN where a series was not seen. Shape (BLOCKS, n)."""

    def __init__(self, n: int) -> None:
        self._levels = np.full((BLOCKS, n), np.nan, np.float32)
        self._block = -1

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._levels = remap(self._levels, keep, np.nan)

    def note(self, ts_ms: int, holt: Holt) -> None:
        """Note the levels of the series that were seen since the last note."""
        block = ts_ms // BLOCK_MS
        passed = min(block - self._block, BLOCKS) if self._block >= 0 else 1
        self._levels[:-passed] = self._levels[passed:]
        self._levels[-passed:] = np.nan
        seen = (holt.state[COUNT] > 0) & (holt.state[SEEN_MS] >= self._block * BLOCK_MS)
        np.copyto(self._levels[-1], holt.state[LEVEL], where=seen, casting="same_kind")
        self._block = block

    @property
    def next_ms(self) -> int:
        """When the next note is due."""
        return (self._block + 1) * BLOCK_MS

    def exhausts_in_s(self, columns: Ints, capacity: Floats) -> Floats:
        """Seconds until each column reaches ``capacity``, from now; NaN for one that is not running out."""
        result = np.full(columns.size, np.nan)
        levels = self._levels[:, columns]
        # Nearly every series of nearly every evaluation is done with here.
        climbed = levels[-1] - np.fmin.reduce(levels, axis=0) >= RISE * capacity
        for place in np.flatnonzero(climbed):
            result[place] = _time_left(levels[:, place].astype(np.float64), float(capacity[place]))
        return result

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"block": self._block, "levels": pack(self._levels)}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same number of columns."""
        self._block = plain["block"]
        self._levels = unpack(plain["levels"], "f4", self._levels.shape)


def _time_left(levels: Floats, capacity: float) -> float:
    """Seconds to ``capacity`` if ``levels`` (one per block, the last now) climb steadily towards it."""
    room, climbed = capacity - levels[-1], levels[-1] - levels[0]
    if np.isnan(levels).any() or room <= 0 or climbed < RISE * capacity:
        return float("nan")
    slope, bend, slope_error, bend_error = _parabola(levels)
    if climbed / (BLOCKS - 1) < SIGNIFICANT * slope_error:
        return float("nan")
    steady = all(part[-1] - part[0] > SLOWEST * climbed / PARTS for part in np.array_split(levels, PARTS))
    goes_on = levels[-1] - levels[-1 - LATELY] > STILL * climbed * LATELY / (BLOCKS - 1)
    # What slows down by ``flatter`` for each block comes to rest after climbing slope^2 / flatter more.
    flatter = SIGMAS * bend_error - bend
    comes_to_rest = flatter > 0 and slope * slope < flatter * room
    if not (steady and goes_on) or slope <= 0 or comes_to_rest:
        return float("nan")
    left_s = room / slope * BLOCK_MS / 1000
    return left_s if left_s <= SOON_S else float("nan")


def _parabola(levels: Floats) -> tuple[float, float, float, float]:
    """Slope now and change of slope per block of the least-squares parabola, and the standard errors of a
    line's slope and of the change, as if only every fourth block were independent."""
    bent, straight, mean = _SOLVE @ levels
    rest = levels - _DESIGN @ (bent, straight, mean)
    scatter = np.sqrt((rest**2).sum() / (BLOCKS / 4 - 3))
    across = np.sqrt((_PLACE**2).sum()), np.sqrt(((_PLACE**2 - (_PLACE**2).mean()) ** 2).sum())
    return straight + 2 * bent * _PLACE[-1], 2 * bent, scatter / across[0], 2 * scatter / across[1]
