"""Tells when a series that climbs, such as a leak in memory, reaches its capacity.

A climb of any length is announced when it is nearly over: loading a model or filling a cache climbs as
straight as a leak, and ends before memory is full. So a series is announced when it climbed evenly, by much
more than is left, does not slow down too much, and comes to where it has not been. What was as high before
and fell again does so once more: a caching allocator climbs until it is nearly full, frees what it holds, and
climbs again. A few samples far apart are no climb, however straight the line between them is.

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

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats
from streams.operators.columns.state import SeriesState, array
from streams.operators.columns.vectors import copy_into

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
FORGET = 0.8
"""What is left, with each sample, of the distance between samples that are nearer to each other now."""
SAMPLES = 8
"""Fewest samples in a climb."""
RETURNS = 0.5
"""What was, before it climbed, up by so much of the climb and fell again has been there before."""

HISTORY = 33
"""Blocks that are judged of a series that was announced."""
STEP = 0.25
"""Share of a steady climb's rise in a block that counts as a rise."""
LONGER = 2
"""Blocks by which a pause may be longer than all before it."""
SURELY = 1.0
"""Standard errors by which it has to bend down for that to be its end."""


class ClimbRule(NamedTuple):
    """Describes a climb of ``parts`` parts of so many ``blocks`` each. Every part climbs ``least`` of what a
    steady climb would, and the newest part ``newest`` of it, as the climb may have ended just now."""

    parts: int
    blocks: int
    least: float
    newest: float


STRAIGHT = ClimbRule(parts=11, blocks=3, least=0.4, newest=0.5)
"""11 minutes of levels: of fewer nothing is said, as loading a model climbs as straight as a leak."""
RISING_FLOOR = ClimbRule(parts=7, blocks=6, least=0.5, newest=0.5)
"""14 minutes of floors."""
STRAIGHT_POINTS, FLOOR_POINTS = (rule.parts * rule.blocks + 1 for rule in (STRAIGHT, RISING_FLOOR))
"""Levels that are judged."""


@kernel
def follow_ticks(ts_ms: int, column: int, ticks: Floats) -> None:
    """Note a sample at ``ts_ms``: how far it is from the one before, or what is left of a longer distance."""
    apart_ms = ts_ms - ticks[0, column]
    ticks[1, column] = np.fmax(apart_ms, FORGET * ticks[1, column])
    ticks[0, column] = ts_ms


@kernel
def close_levels(
    block: int, last: int, now: Floats, low: npt.NDArray[np.float32], high: Floats, began: Floats
) -> None:
    """Note the block that ended, ``last``, and begin ``block``."""
    passed = min(block - last, BLOCKS)
    for column in range(now.size):
        before = np.nan
        for row in range(BLOCKS - PAUSE, BLOCKS):
            before = np.fmin(before, float(low[row, column]))
        # A climb begins with the first level, and anew after a pause.
        if np.isnan(began[0, column]) or now[column] <= before:
            began[0, column], began[1, column] = now[column], last
    for row in range(BLOCKS - passed):
        copy_into(low[row], low[row + passed])
    low[BLOCKS - passed :] = np.nan
    copy_into(low[BLOCKS - passed], now)
    if block // FLOOR != last // FLOOR:
        copy_into(high[0], high[1])
        high[1] = np.nan
    now[:] = np.nan


@kernel
def _fitted(levels: Floats) -> tuple[float, float, float, float, float]:
    """Fit the least-squares parabola in orthogonal terms: the factors of the place and of its square, the sum
    of squares of what is left, and those of place and square themselves."""
    centre, mean, mean_square = (levels.size - 1) / 2, 0.0, 0.0
    for at in range(levels.size):
        mean += levels[at]
        mean_square += (at - centre) * (at - centre)
    mean, mean_square = mean / levels.size, mean_square / levels.size
    straight = bent = places = squares = rest = 0.0
    for at in range(levels.size):
        place = at - centre
        square = place * place - mean_square
        straight += place * levels[at]
        bent += square * levels[at]
        places += place * place
        squares += square * square
    straight, bent = straight / places, bent / squares
    for at in range(levels.size):
        place = at - centre
        off = levels[at] - mean - straight * place - bent * (place * place - mean_square)
        rest += off * off
    return straight, bent, rest, places, squares


@kernel
def _until_full(levels: Floats, room: float, sigmas: float) -> float:
    """Return the seconds in which ``levels`` climb by ``room``; NaN if they come to rest before, should they
    bend down by so many standard errors more than they seem to. As if only every fourth block were
    independent."""
    straight, bent, rest, places, squares = _fitted(levels)
    scatter = np.sqrt(rest / (levels.size / 4 - 3))
    slope, bend = straight + bent * (levels.size - 1), 2 * bent
    slope_error, bend_error = scatter / np.sqrt(places), 2 * scatter / np.sqrt(squares)
    if (levels[-1] - levels[0]) / (levels.size - 1) < SIGNIFICANT * slope_error or slope <= 0:
        return np.nan
    # What slows down by ``flatter`` for each block comes to rest after climbing slope^2 / (2 flatter) more.
    flatter = sigmas * bend_error - bend
    if flatter > 0 and slope * slope < flatter * room:
        return np.nan
    faster = max(bend - SIGMAS * bend_error, 0.0)
    blocks = 2 * room / (slope + np.sqrt(slope * slope + 2 * faster * room))
    return float(blocks * BLOCK_MS / 1000)


@kernel
def _has_gap(levels: Floats) -> bool:
    for level in levels:  # noqa: SIM110 - numba compiles a loop sooner
        if np.isnan(level):
            return True
    return False


@kernel
def _left(levels: Floats, rule: ClimbRule, capacity: float, top: float) -> float:
    """Return the seconds from the highest recent level ``top`` to ``capacity``, if ``levels`` climb by the
    rule."""
    room, climbed = capacity - top, levels[-1] - levels[0]
    if _has_gap(levels) or room <= 0 or climbed < RISE * capacity:
        return np.nan
    share = 0.0
    for part in range(rule.parts):
        end = (part + 1) * rule.blocks
        share = (levels[end] - levels[end - rule.blocks]) * rule.parts / climbed
        if share < rule.least:
            return np.nan
    left_s = _until_full(levels, room, SIGMAS) if share >= rule.newest else np.nan
    return left_s if left_s <= SOON_S else np.nan


@kernel
def _floors(low: Floats) -> Floats:
    """Return the least of the last ``FLOOR`` levels at each; NaN where one of them is unknown."""
    floors = low[FLOOR - 1 :].copy()
    for at in range(floors.size):
        for level in low[at : at + FLOOR - 1]:
            floors[at] = np.minimum(floors[at], level)
    return floors


@kernel
def _nearly_full(
    means: npt.NDArray[np.float32], top: float, capacity: float, most: float, tick_s: float
) -> float:
    """Return the same seconds, if the newest ``means`` climbed at least by the room that is left over
    ``most``."""
    room = capacity - top
    for quarter in QUARTERS:
        if 4 * quarter * MEANS_S < SAMPLES * tick_s:
            continue
        begin = means.size - 1 - 4 * quarter
        climb = means[begin:].astype(np.float64)
        climbed, levels = top - climb[0], climb[::quarter]
        if not climbed >= max(room / most, HIGH * capacity):
            continue
        # Whether it was so high before, and of the same program: one that ends gives back nearly all.
        high, at = climb[0] + RETURNS * climbed, begin - 1
        while at >= 0 and not (means[at] < NOTHING * capacity or means[at] >= high):
            at -= 1
        if at >= 0 and means[at] >= high and not means[at] < NOTHING * capacity:
            continue
        # The newest blocks, too: the climb may have ended just now.
        least = EVENLY * climbed / 4
        slowest = np.inf
        for part in range(levels.size - 1):
            slowest = np.minimum(slowest, levels[part + 1] - levels[part])
        if slowest < least or climb[-1] - climb[-3] < 2 * least / quarter:
            continue
        _, _, rest, _, _ = _fitted(climb)
        if np.sqrt(rest / climb.size) > UNEVEN * climbed:
            continue
        before, lately = levels[2] - levels[0], levels[4] - levels[2]
        # What slows down by the same ratio again and again comes to rest after climbing so much more.
        more = lately * lately / (before - lately) if lately < before else np.inf
        if 0 < room < more:
            return float(room / lately * 2 * quarter * MEANS_S)
    return np.nan


@kernel
def _still_left(low: Floats, top: float, capacity: float) -> float:
    """Return the same of a series that was announced: it is over when it pauses for longer than it did
    before."""
    room, climbed = capacity - top, low[-1] - low[0]
    if _has_gap(low) or room <= 0 or climbed < RISE * capacity:
        return np.nan
    highest, rose, longest = low[0], -1, 0
    for at in range(1, low.size):
        if max(low[at], highest) - highest > STEP * climbed / HISTORY:
            if rose >= 0:
                longest = max(longest, at - rose)
            rose = at
        highest = max(low[at], highest)
    if low.size - 1 - rose > longest + LONGER:
        return np.nan
    left_s = _until_full(_floors(low), room, -SURELY)
    return left_s if left_s <= ANNOUNCED_SOON_S else np.nan


@kernel
def _bridge(low: Floats) -> None:
    """Fill in what is missing between known levels, on the lines through these; NaN before the last gap that
    is longer than ``BRIDGED``. The last is known."""
    if np.isfinite(low[-STRAIGHT_POINTS:]).sum() < FEWEST:
        return
    later = low.size - 1
    for at in range(low.size - 2, -1, -1):
        if np.isnan(low[at]):
            continue
        if later - at > BRIDGED + 1:
            break
        slope = (low[later] - low[at]) / (later - at)
        for between in range(at + 1, later):
            low[between] = slope * (between - at) + low[at]
        later = at
    low[:later] = np.nan


@kernel
def _judged(
    low: Floats, means: npt.NDArray[np.float32], top: float, capacity: float, began: Floats, block: int,
    announced: bool, tick_s: float,
) -> float:  # fmt: skip
    """Return the seconds until one series is full."""
    _bridge(low)
    from_nothing, left_s = began[0] < NOTHING * capacity, np.nan
    if not (from_nothing and block - began[1] < LASTING):
        left_s = _left(low[-STRAIGHT_POINTS:], STRAIGHT, capacity, top)
        if np.isnan(left_s):
            floors, newest = _floors(low)[-FLOOR_POINTS:], low[-1 - STRAIGHT.blocks :]
            # A floor goes on rising for two minutes after all has come to rest; what it is the floor of does
            # not.
            lowest = highest = newest[0]
            for level in newest:
                lowest, highest = min(level, lowest), max(level, highest)
            moved = (highest - lowest) * (floors.size - 1) / STRAIGHT.blocks
            if not _has_gap(newest) and moved > RISING_FLOOR.newest * (floors[-1] - floors[0]):
                left_s = _left(floors, RISING_FLOOR, capacity, top)
    if np.isnan(left_s):
        most = NEARLY_FROM_NOTHING if from_nothing else NEARLY
        left_s = _nearly_full(means, top, capacity, most, tick_s)
    if np.isnan(left_s) and announced:
        left_s = _still_left(low[-1 - HISTORY :], top, capacity)
    return left_s


@entry(
    "float64[::1](int64, float64[::1], float32[:, ::1], float32[:, ::1], float64[::1], float64[:, ::1],"
    " float64[:, ::1], float64[:, ::1], float64[:, ::1])"
)
def _exhausts_in_s(
    now_ms: int, capacity: Floats, means: npt.NDArray[np.float32], low: npt.NDArray[np.float32], now: Floats,
    high: Floats, began: Floats, announced: Floats, ticks: Floats,
) -> Floats:  # fmt: skip
    """See ``ExhaustionDetector.exhausts_in_s``."""
    result, levels = np.full(capacity.size, np.nan), np.empty(len(low) + 1)
    for column in range(capacity.size):
        full_ms, said_ms = announced[0, column], announced[1, column]
        if np.isnan(capacity[column]) or np.isnan(now[column]):
            if now_ms - said_ms <= KEPT_MS and full_ms > now_ms:
                result[column] = (full_ms - now_ms) / 1000
        else:
            levels[-1] = lowest = now[column]
            for block in range(len(low)):
                levels[block] = low[block, column]
                lowest = np.fmin(lowest, levels[block])
            if now[column] - lowest >= RISE * capacity[column]:
                top = np.fmax(high[0, column], high[1, column])
                result[column] = _judged(
                    levels, means[:, column], top, capacity[column], began[:, column], now_ms // BLOCK_MS,
                    not np.isnan(full_ms), ticks[1, column] / 1000,
                )  # fmt: skip
            full_ms, said_ms = now_ms + 1000 * result[column], float(now_ms)
        known = not np.isnan(result[column])
        announced[0, column], announced[1, column] = (full_ms, said_ms) if known else (np.nan, np.nan)
    return result


class ExhaustionDetector(SeriesState):
    """Keeps the recent levels of n series, in the metric's unit; NaN where a series was not seen.

    ``low`` holds the lowest value of each block, oldest first, shape (BLOCKS, n), and ``now`` that of the
    open block, which has the last tick. ``high`` holds the highest value since the last and since the last
    but one span of two minutes began, ``began`` the level and the block in which the present climb began,
    ``_announced`` the moment at which it was announced to be full and that at which that was said (ms), and
    ``ticks`` when it was seen last, and how far its samples are apart (ms).
    """

    low: npt.NDArray[np.float32] = array(BLOCKS, "n", fill=np.nan, dtype=np.float32)
    now: Floats = array("n", fill=np.nan)
    high: Floats = array(2, "n", fill=np.nan)
    began: Floats = array(2, "n", fill=np.nan)
    ticks: Floats = array(2, "n", fill=np.nan)
    _announced: Floats = array(2, "n", fill=np.nan)

    def exhausts_in_s(self, capacity: Floats, now_ms: int, means: npt.NDArray[np.float32]) -> Floats:
        """Return the seconds from ``now_ms``, the last tick, until each series reaches its ``capacity``,
        shape (n,); NaN for one that is not running out. ``means`` are those of its newest blocks of ten
        seconds.

        What is returned counts as announced. While an announced series is absent, its time counts down.
        """
        return _exhausts_in_s(
            now_ms, capacity, means, self.low, self.now, self.high, self.began, self._announced, self.ticks
        )
