"""When a series that climbs, such as a leak in memory, reaches its capacity.

A climb of any length is announced when it is nearly over: loading a model or filling a cache climbs as
straight as a leak, and ends before memory is full. So a series is announced when it climbed evenly, by much
more than is left, and does not slow down too much.

Only a leak climbs for long. The lowest value of each block of 20 s is kept for 17 minutes. A series is
announced, too, when

- it climbed in every part of the history, and much more than it scatters,
- it does not bend towards a rest below the capacity,
- it would be full within an hour.

What goes up and down with batches or garbage collections is judged by its floor, over a longer history. A
climb from nearly nothing is a program that starts, and has to last for half an hour. What was announced stays
announced while the series pauses no longer than before, as one that climbs in steps does, and is not about to
come to rest. Missing levels between two known ones lie on the line through them. The limits were chosen on
the curves of ``bench/generators_memory.py``.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.compiled import entry
from streams.operators.columns.arrays import Floats, Ints, pack, remap, unpack

BLOCK_MS = 20_000
BLOCKS = 50
"""Blocks that are remembered: 17 minutes with the one that is open."""
MEANS_S = 10.0
"""Seconds of a block of ``means``."""
BRIDGED = 6
"""Most blocks without a sample, between two with one, that are bridged: two minutes."""
FEWEST = 8
"""Fewest blocks with a sample in eleven minutes: fewer levels rise by chance."""
KEPT_MS = 80_000
"""An announcement outlasts an absent value or capacity by so much: shorter than a level is known, so that its
end can be published."""
FLOOR = 6
"""Blocks that a floor is the least of: two minutes, longer than a garbage collection stays away."""
SIGNIFICANT = 8.0
"""Least slope over its standard error."""
SIGMAS = 2.0
"""A climb may bend down by so many standard errors more than it seems to."""
RISE = 0.01
"""Least share of the capacity that it climbed in the history."""
SOON_S, ANNOUNCED_SOON_S = 3600.0, 4500.0
"""Most seconds to the capacity; and for a series that was announced."""
PAUSE = 6
"""Blocks without a rise after which a climb is a new one."""
NOTHING = 0.1
"""Share of the capacity below which a climb begins from nearly nothing,"""
LASTING = 90
"""and so many blocks, half an hour, that it has to last then: the longest that a program loads."""

QUARTERS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Blocks of ten seconds in a quarter of a climb that is looked for: climbs of 40 s to 11 minutes."""
NEARLY, NEARLY_FROM_NOTHING = 0.25, 0.05
"""Most room over what was climbed; what climbs from nearly nothing loads, and a load may fill nine tenths."""
HIGH = 0.1
"""Least share of the capacity that was climbed,"""
EVENLY = 0.5
"""least share of a steady climb in each quarter of it,"""
UNEVEN = 0.04
"""and most scatter about its parabola over what was climbed: a few jumps are no climb."""

HISTORY = 33
"""Blocks that are judged of a series that was announced."""
STEP = 0.25
"""Share of a steady climb's rise in a block that counts as a rise."""
LONGER = 2
"""Blocks by which a pause may be longer than all before it."""
SURELY = 1.0
"""Standard errors by which it has to bend down for that to be its end."""


@dataclass(frozen=True, slots=True)
class ClimbRule:
    """A climb of ``parts`` parts of so many ``blocks`` each. Every part climbs ``least`` of what a steady
    climb would, and the newest part ``newest`` of it, as the climb may have ended just now."""

    parts: int
    blocks: int
    least: float
    newest: float

    @property
    def points(self) -> int:
        """Levels that are judged."""
        return self.parts * self.blocks + 1


STRAIGHT = ClimbRule(parts=11, blocks=3, least=0.4, newest=0.5)
"""11 minutes of levels: of fewer nothing is said, as loading a model climbs as straight as a leak."""
RISING_FLOOR = ClimbRule(parts=7, blocks=6, least=0.5, newest=0.5)
"""14 minutes of floors."""


@entry("void(float64[::1], float64[::1], float64[:, ::1])")
def _extend(values: Floats, lowest: Floats, highest: Floats) -> None:
    """Lower what is lower in a tick, and raise what is higher; NaN is neither."""
    for column in range(values.size):
        lowest[column] = np.fmin(lowest[column], values[column])
        for row in range(len(highest)):
            highest[row, column] = np.fmax(highest[row, column], values[column])


@entry("int64[::1](float32[:, ::1], float64[::1], float64[::1])")
def _climbed(low: npt.NDArray[np.float32], now: Floats, capacity: Floats) -> Ints:
    """The columns that are to be judged: nearly every series of nearly every evaluation is done with here."""
    lowest = now.copy()
    for row in low:
        for column in range(row.size):
            lowest[column] = np.fmin(lowest[column], row[column])
    return np.flatnonzero(now - lowest >= RISE * capacity)


class ExhaustionDetector:
    """The recent levels of n series, in the metric's unit; NaN where a series was not seen.

    ``_low`` holds the lowest value of each block, oldest first, shape (BLOCKS, n), and ``_now`` that of the
    open block. ``_high`` holds the highest value since the last and since the last but one span of two
    minutes began, ``_began`` the level and the block in which the present climb began, ``_announced`` the
    moment at which it was announced to be full and that at which that was said (ms).
    """

    def __init__(self, n: int) -> None:
        self._low = np.full((BLOCKS, n), np.nan, np.float32)
        self._now = np.full(n, np.nan)
        self._high = np.full((2, n), np.nan)
        self._began = np.full((2, n), np.nan)
        self._announced = np.full((2, n), np.nan)
        self._block = -1

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._low, self._now = remap(self._low, keep, np.nan), remap(self._now, keep, np.nan)
        self._high, self._began = remap(self._high, keep, np.nan), remap(self._began, keep, np.nan)
        self._announced = remap(self._announced, keep, np.nan)

    def update(self, ts_ms: int, values: Floats) -> None:
        """Take one tick; NaN is absent."""
        if ts_ms >= (self._block + 1) * BLOCK_MS:
            self._close(ts_ms // BLOCK_MS)
        _extend(values, self._now, self._high)

    def _close(self, block: int) -> None:
        """Note the block that ended, and begin ``block``."""
        if self._block >= 0:
            self._begin()
            passed = min(block - self._block, BLOCKS)
            self._low[:-passed] = self._low[passed:]
            self._low[-passed:] = np.nan
            self._low[-passed] = self._now
            if block // FLOOR != self._block // FLOOR:
                self._high[0], self._high[1] = self._high[1], np.nan
        self._now[:] = np.nan
        self._block = block

    def _begin(self) -> None:
        """A climb begins with the first level, and anew after a pause. Call before the block is noted."""
        newest, before = self._now, np.fmin.reduce(self._low[-PAUSE:], axis=0)
        fresh = np.isnan(self._began[0]) | (newest <= before)
        np.copyto(self._began, np.stack((newest, np.full(newest.size, float(self._block)))), where=fresh)

    def exhausts_in_s(self, capacity: Floats, now_ms: int, means: npt.NDArray[np.float32]) -> Floats:
        """Seconds from ``now_ms``, the last tick, until each series reaches its ``capacity``, shape (n,); NaN
        for one that is not running out. ``means`` are those of its newest blocks of ten seconds.

        What is returned counts as announced. While an announced series is absent, its time counts down.
        """
        result = np.full(capacity.size, np.nan)
        for column in _climbed(self._low, self._now, capacity).tolist():
            low = np.append(self._low[:, column], self._now[column])
            result[column] = self._judged(column, low, means[:, column], float(capacity[column]))
        before = self._announced
        absent = np.isnan(self._now) | np.isnan(capacity)
        kept = absent & (now_ms - before[1] <= KEPT_MS) & (before[0] > now_ms)
        result[kept] = (before[0, kept] - now_ms) / 1000
        announced = np.where(kept, before, [now_ms + 1000 * result, np.full(capacity.size, float(now_ms))])
        announced[:, np.isnan(result)] = np.nan
        self._announced = announced
        return result

    def _judged(self, column: int, low: Floats, means: npt.NDArray[np.float32], capacity: float) -> float:
        """The same of one series with the levels ``low``."""
        low = _bridged(low)
        top = float(np.fmax(self._high[0, column], self._high[1, column]))
        left_s = float("nan")
        level, block = self._began[:, column]
        from_nothing = level < NOTHING * capacity
        if not (from_nothing and self._block - block < LASTING):
            left_s = _time_left(low, top, capacity)
        if np.isnan(left_s):
            left_s = _nearly_full(means, top, capacity, NEARLY_FROM_NOTHING if from_nothing else NEARLY)
        if np.isnan(left_s) and not np.isnan(self._announced[0, column]):
            left_s = _still_left(low[-1 - HISTORY :], top, capacity)
        return left_s

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "block": self._block, "low": pack(self._low), "now": pack(self._now),
            "high": pack(self._high), "began": pack(self._began), "announced": pack(self._announced),
        }  # fmt: skip

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same number of columns."""
        self._block = plain["block"]
        self._low = unpack(plain["low"], "f4", self._low.shape)
        self._now = unpack(plain["now"], "f8", self._now.shape)
        self._high = unpack(plain["high"], "f8", self._high.shape)
        self._began = unpack(plain["began"], "f8", self._began.shape)
        self._announced = unpack(plain["announced"], "f8", self._announced.shape)


def _bridged(low: Floats) -> Floats:
    """``low``, whose last is known, with the blocks that are missing between known ones, on the lines through
    these; NaN before the last gap that is longer than ``BRIDGED``."""
    known = np.flatnonzero(low == low)
    if known.size == low.size - known[0] or np.count_nonzero(known >= low.size - STRAIGHT.points) < FEWEST:
        return low
    bridged = np.interp(np.arange(low.size), known, low[known])
    gaps = np.flatnonzero(np.diff(known, prepend=-low.size) > BRIDGED + 1)
    bridged[: known[gaps[-1]]] = np.nan
    return bridged


def _nearly_full(means: npt.NDArray[np.float32], top: float, capacity: float, most: float) -> float:
    """Seconds from the highest recent level ``top`` to ``capacity``, if the newest ``means`` climbed at least
    by the room that is left over ``most``."""
    room = capacity - top
    for quarter in QUARTERS:
        climb = means[-1 - 4 * quarter :].astype(np.float64)
        climbed, levels = top - climb[0], climb[::quarter]
        if not climbed >= max(room / most, HIGH * capacity):
            continue
        # The newest blocks, too: the climb may have ended just now.
        least = EVENLY * climbed / 4
        if np.diff(levels).min() < least or climb[-1] - climb[-3] < 2 * least / quarter:
            continue
        *_, rest = _fitted(climb)
        if np.sqrt((rest**2).mean()) > UNEVEN * climbed:
            continue
        before, lately = levels[2] - levels[0], levels[4] - levels[2]
        # What slows down by the same ratio again and again comes to rest after climbing so much more.
        more = lately * lately / (before - lately) if lately < before else np.inf
        if 0 < room < more:
            return float(room / lately * 2 * quarter * MEANS_S)
    return float("nan")


def _time_left(low: Floats, top: float, capacity: float) -> float:
    """Seconds from the highest recent level ``top`` to ``capacity``, if the levels ``low`` climb steadily."""
    left_s = _left(low[-STRAIGHT.points :], STRAIGHT, capacity, top)
    if not np.isnan(left_s):
        return left_s
    floor = np.lib.stride_tricks.sliding_window_view(low, FLOOR).min(axis=1)[-RISING_FLOOR.points :]
    # A floor goes on rising for two minutes after all has come to rest; what it is the floor of does not.
    moved = np.ptp(low[-1 - STRAIGHT.blocks :]) * (floor.size - 1) / STRAIGHT.blocks
    if not moved > RISING_FLOOR.newest * (floor[-1] - floor[0]):
        return float("nan")
    return _left(floor, RISING_FLOOR, capacity, top)


def _left(levels: Floats, rule: ClimbRule, capacity: float, top: float) -> float:
    """The same by one rule; NaN if the levels break it."""
    nothing = float("nan")
    room, climbed = capacity - top, levels[-1] - levels[0]
    if np.isnan(levels).any() or room <= 0 or climbed < RISE * capacity:
        return nothing
    steps = np.diff(levels[:: rule.blocks]) * rule.parts / climbed
    if steps.min() < rule.least or steps[-1] < rule.newest:
        return nothing
    left_s = _until_full(levels, room, SIGMAS)
    return left_s if left_s <= SOON_S else nothing


def _still_left(low: Floats, top: float, capacity: float) -> float:
    """The same of a series that was announced: it is over when it pauses for longer than it did before."""
    nothing = float("nan")
    room, climbed = capacity - top, low[-1] - low[0]
    if np.isnan(low).any() or room <= 0 or climbed < RISE * capacity:
        return nothing
    rose = np.flatnonzero(np.diff(np.maximum.accumulate(low)) > STEP * climbed / HISTORY)
    pauses = np.diff(rose, append=HISTORY - 1)
    if pauses[-1] > pauses[:-1].max(initial=0) + LONGER:
        return nothing
    floor = np.lib.stride_tricks.sliding_window_view(low, FLOOR).min(axis=1)
    left_s = _until_full(floor, room, -SURELY)
    return left_s if left_s <= ANNOUNCED_SOON_S else nothing


def _until_full(levels: Floats, room: float, sigmas: float) -> float:
    """Seconds in which ``levels`` climb by ``room``; NaN if they come to rest before, should they bend down
    by so many standard errors more than they seem to."""
    slope, bend, slope_error, bend_error = _parabola(levels)
    if (levels[-1] - levels[0]) / (levels.size - 1) < SIGNIFICANT * slope_error or slope <= 0:
        return float("nan")
    # What slows down by ``flatter`` for each block comes to rest after climbing slope^2 / (2 flatter) more.
    flatter = sigmas * bend_error - bend
    if flatter > 0 and slope * slope < flatter * room:
        return float("nan")
    faster = max(bend - SIGMAS * bend_error, 0.0)
    blocks = 2 * room / (slope + np.sqrt(slope * slope + 2 * faster * room))
    return float(blocks) * BLOCK_MS / 1000


def _parabola(levels: Floats) -> tuple[float, float, float, float]:
    """Slope now and change of slope per block of the least-squares parabola, and the standard errors of a
    line's slope and of the change, as if only every fourth block were independent."""
    place, square, straight, bent, rest = _fitted(levels)
    scatter = np.sqrt((rest**2).sum() / (levels.size / 4 - 3))
    across = np.sqrt((place**2).sum()), np.sqrt((square**2).sum())
    return straight + 2 * bent * place[-1], 2 * bent, scatter / across[0], 2 * scatter / across[1]


def _fitted(levels: Floats) -> tuple[Any, Any, float, float, Any]:
    """The least-squares parabola: place and its square, orthogonal to 1 and to one another, the factors of
    both, and what is left of the levels."""
    place = np.arange(levels.size) - (levels.size - 1) / 2
    square = place**2 - (place**2).mean()
    straight = float((place * levels).sum() / (place**2).sum())
    bent = float((square * levels).sum() / (square**2).sum())
    rest = levels - levels.mean() - straight * place - bent * square
    return place, square, straight, bent, rest
