"""The recent past of many series, as means of ten seconds: the line through the newest, and the trend.

A trend is the slope of the smoothed means if it is significant, else 0. The smoothing (J. von Hann's window,
two longest cycles wide) takes out what repeats, found or not. What is left counts as independent once in a
longest cycle, and every quarter of the history has to go the same way: a step and a phase of a cycle do not.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats, Ints, pack, remap, unpack
from streams.operators.trends.line import Line

BLOCK_MS = 10_000
BLOCK_S = BLOCK_MS / 1000
BLOCKS = 100
"""Blocks that are remembered: 17 minutes."""
BRIDGED = 12
"""Most blocks without a sample, between two with one, that lie on the line between these: two minutes."""
MOVED_S = 1.0
"""Most seconds by which the mean of an uneven block is moved to the middle of it."""
LINE, FEWEST = 12, 3
"""Most and fewest blocks that a line is drawn through."""
LONGEST = 12
"""Blocks in the longest cycle that may hide in a series: two minutes."""
SIZES = (24, 34, 48, 68, 100)
"""Blocks that a trend is looked for in: the largest number that is known."""
SIGNIFICANT = 6.0
"""Least rise over its standard error,"""
EVENLY = 0.3
"""least share of a steady rise in each quarter of the history,"""
VISIBLE = 0.35
"""and least rise over the standard deviation of the values."""


@entry("void(float64[::1], float64, float64[:, ::1])")
def _add(values: Floats, offset_s: float, to: Floats) -> None:
    """Add a tick to the sums, numbers and offsets ``to``."""
    for column in range(values.size):
        if not np.isnan(values[column]):
            to[0, column] += values[column]
            to[1, column] += 1
            to[2, column] += offset_s


@entry("float64[:, ::1](float32[:, ::1], float64)")
def _lines(means: npt.NDArray[np.float32], open_s: float) -> Floats:
    """Level and slope of the least-squares lines through the newest of the ``means``, the last of which ended
    ``open_s`` ago."""
    lines = np.full((2, means.shape[1]), np.nan)
    for column in range(means.shape[1]):
        newest, used = means[-LINE:, column].astype(np.float64), 0
        while used < LINE and not np.isnan(newest[LINE - 1 - used]):
            used += 1
        if used < FEWEST:
            continue
        base, total, places = newest[-1], 0.0, 0.0
        for block in range(LINE - used, LINE):
            newest[block] -= base
            total += newest[block]
            places -= (LINE - block - 0.5) * BLOCK_S + open_s
        centre, product, square = places / used, 0.0, 0.0
        for block in range(LINE - used, LINE):
            place = -((LINE - block - 0.5) * BLOCK_S + open_s) - centre
            product += place * newest[block]
            square += place * place
        slope = product / square
        lines[0, column], lines[1, column] = base + total / used - slope * centre, slope
    return lines


def _window(size: int) -> Floats:
    """The weights that smooth ``size`` blocks."""
    width = min(2 * LONGEST, size // 3)
    window = np.sin(np.pi * (np.arange(width) + 0.5) / width) ** 2
    return np.asarray(window / window.sum())


_WIDTHS = np.array([_window(size).size for size in SIZES])
_WINDOWS = np.concatenate([_window(size) for size in SIZES])


@kernel
def _smoothed(means: Floats, window: Floats) -> Floats:
    smooth = np.zeros(means.size - window.size + 1)
    for offset in range(window.size):
        for place in range(smooth.size):
            smooth[place] += window[offset] * means[offset + place]
    return smooth


@kernel
def _trend(smooth: Floats, deviation: float) -> float:
    """The slope per block; 0 if it is not significant."""
    size = smooth.size
    mean, product, square, rest = smooth.mean(), 0.0, 0.0, 0.0
    for block in range(size):
        place = block - (size - 1) / 2
        product += place * smooth[block]
        square += place * place
    slope = product / square
    for block in range(size):
        off = smooth[block] - mean - (block - (size - 1) / 2) * slope
        rest += off * off
    rise, least = abs(slope) * size, np.inf
    for quarter in range(4):
        climbed = smooth[(quarter + 1) * (size - 1) // 4] - smooth[quarter * (size - 1) // 4]
        least = min(least, climbed * np.sign(slope))
    told = rise > SIGNIFICANT * np.sqrt(rest / size) * np.sqrt(12 * LONGEST / size)
    return slope if told and least > EVENLY / 4 * rise and rise > VISIBLE * deviation else 0.0


@entry("float64[::1](float32[:, ::1], float64[::1])")
def _trends(means: npt.NDArray[np.float32], deviation: Floats) -> Floats:
    """The slopes of all series."""
    slopes = np.zeros(deviation.size)
    for column in range(deviation.size):
        known, which = 0, 0
        while known < BLOCKS and not np.isnan(means[BLOCKS - 1 - known, column]):
            known += 1
        while which < len(SIZES) and SIZES[which] <= known:
            which += 1
        if which > 0:
            newest = means[BLOCKS - SIZES[which - 1] :, column].astype(np.float64)
            end = _WIDTHS[:which].sum()
            window = _WINDOWS[end - _WIDTHS[which - 1] : end]
            slopes[column] = _trend(_smoothed(newest - newest[-1], window), deviation[column]) / BLOCK_S
    return slopes


class RecentMeans:
    """The newest closed blocks of n series in ``means``, oldest first, shape (BLOCKS, n); NaN where nothing
    was seen. ``_open`` holds sum, number and total offset (s) of the values since the open block began."""

    def __init__(self, n: int) -> None:
        self.means = np.full((BLOCKS, n), np.nan, np.float32)
        self._open = np.zeros((3, n))

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self.means, self._open = remap(self.means, keep, np.nan), remap(self._open, keep, 0.0)

    def update(self, ts_ms: int, last_ms: int, values: Floats, slope: Floats) -> None:
        """Take one tick after that at ``last_ms``; NaN is absent. ``slope`` (per second) moves the mean of an
        uneven block to its middle."""
        passed = ts_ms // BLOCK_MS - last_ms // BLOCK_MS
        if passed:
            self._close(ts_ms, min(passed, BLOCKS), values, slope)
        _add(values, ts_ms % BLOCK_MS / 1000, self._open)

    def _mean(self, slope: Floats) -> Floats:
        """That of the open block."""
        total, count, offset = self._open
        seen = np.maximum(count, 1)
        middle = total / seen + slope * np.clip(BLOCK_S / 2 - offset / seen, -MOVED_S, MOVED_S)
        return np.where(count > 0, middle, np.nan)

    def _close(self, ts_ms: int, passed: int, values: Floats, slope: Floats) -> None:
        mean = self._mean(slope)
        self.means[:-passed] = self.means[passed:]
        self.means[-passed:] = np.nan
        self.means[-passed] = mean
        self._open[:] = 0.0
        for column in np.flatnonzero(np.isnan(self.means[-1]) & np.isfinite(values)).tolist():
            self._bridge(self.means[-1 - BRIDGED :, column], values[column], ts_ms % BLOCK_MS / BLOCK_MS)

    def _bridge(self, means: Any, value: float, offset: float) -> None:
        known = np.flatnonzero(means == means)
        if known.size:
            gap = np.arange(known[-1] + 1, means.size)
            ends = (float(known[-1]), means.size - 0.5 + offset)
            means[gap] = np.interp(gap, ends, (float(means[known[-1]]), value))

    def age_s(self) -> Floats:
        """For how long each series is known, of the time that is remembered, shape (n,)."""
        return np.asarray((self.means == self.means).sum(axis=0) * BLOCK_S)

    def line(self, now_ms: int) -> Line:
        """The least-squares lines through the newest blocks, as of ``now_ms``, the last tick; NaN where too
        few are known."""
        level, slope = _lines(self.means, now_ms % BLOCK_MS / 1000)
        return Line(level, slope, np.zeros(level.size, np.bool_))

    def trend(self, deviation: Floats) -> Floats:
        """Slope per second of each series that has a trend, 0 for the others, shape (n,). ``deviation`` is
        that of the values, their standard deviation, (n,)."""
        return _trends(self.means, deviation)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"means": pack(self.means), "open": pack(self._open)}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same number of columns."""
        self.means = unpack(plain["means"], "f4", self.means.shape)
        self._open = unpack(plain["open"], "f8", self._open.shape)
