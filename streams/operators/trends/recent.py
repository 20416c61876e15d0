"""Keeps the recent past of many series, as means of ten seconds: the line through the newest, and the trend.

A trend is the slope of the smoothed means if it is significant, else 0. The smoothing (J. von Hann's window,
two longest cycles wide) takes out what repeats, found or not. What is left counts as independent once in a
longest cycle, and every quarter of the history has to go the same way: a step and a phase of a cycle do not.
"""

import numpy as np
import numpy.typing as npt

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats
from streams.operators.columns.state import SeriesState, array
from streams.operators.columns.vectors import average, copy_into
from streams.operators.trends.holt import is_measured

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


@kernel
def close_means(
    ts_ms: int, last_ms: int, values: Floats, slopes: Floats, means: npt.NDArray[np.float32], opened: Floats
) -> None:
    """Note the means of the block that ended, and begin that of ``ts_ms``. ``slopes`` (per second) move the
    mean of an uneven block to its middle."""
    passed = min(ts_ms // BLOCK_MS - last_ms // BLOCK_MS, BLOCKS)
    for row in range(BLOCKS - passed):
        copy_into(means[row], means[row + passed])
    means[BLOCKS - passed :] = np.nan
    for column in range(values.size):
        total, count, offset = opened[0, column], opened[1, column], opened[2, column]
        if count > 0:
            late_s = min(max(BLOCK_S / 2 - offset / count, -MOVED_S), MOVED_S)
            means[BLOCKS - passed, column] = total / count + slopes[column] * late_s
        if np.isnan(means[-1, column]) and is_measured(values[column]):
            # The newest means, which are not known, lie on the line from the last that is to the value.
            newest, begun = means[-1 - BRIDGED :, column], ts_ms % BLOCK_MS / BLOCK_MS
            last = newest.size - 1
            while last >= 0 and np.isnan(newest[last]):
                last -= 1
            if last >= 0:
                slope = (values[column] - newest[last]) / (newest.size - 0.5 + begun - last)
                for place in range(last + 1, newest.size):
                    newest[place] = slope * (place - last) + newest[last]
    opened[:] = 0.0


@kernel
def _line(means: npt.NDArray[np.float32], open_s: float) -> tuple[float, float]:
    """Return level and slope of the least-squares line through the newest of the ``means``, the last of which
    ended ``open_s`` ago."""
    newest, used = means[-LINE:].astype(np.float64), 0
    while used < LINE and not np.isnan(newest[LINE - 1 - used]):
        used += 1
    if used < FEWEST:
        return np.nan, np.nan
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
    return base + total / used - slope * centre, slope


def _window(size: int) -> Floats:
    """Return the weights that smooth ``size`` blocks."""
    width = min(2 * LONGEST, size // 3)
    window = np.sin(np.pi * (np.arange(width) + 0.5) / width) ** 2
    return np.asarray(window / window.sum())


_WIDTHS = np.array([_window(size).size for size in SIZES])
_WINDOWS = np.concatenate([_window(size) for size in SIZES])


@kernel
def _trend(means: npt.NDArray[np.float32], deviation: float) -> float:
    """Return the slope per second of a series; 0 if there is no trend."""
    known, which = 0, 0
    while known < BLOCKS and not np.isnan(means[BLOCKS - 1 - known]):
        known += 1
    while which < len(SIZES) and SIZES[which] <= known:
        which += 1
    if which == 0:
        return 0.0
    newest = means[BLOCKS - SIZES[which - 1] :].astype(np.float64)
    newest -= newest[-1]
    end = _WIDTHS[:which].sum()
    window = _WINDOWS[end - _WIDTHS[which - 1] : end]
    size = newest.size - window.size + 1
    smooth = np.zeros(size)
    for offset in range(window.size):
        for block in range(size):
            smooth[block] += window[offset] * newest[offset + block]
    mean, product, square, rest = average(smooth), 0.0, 0.0, 0.0
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
    is_significant = rise > SIGNIFICANT * np.sqrt(rest / size) * np.sqrt(12 * LONGEST / size)
    is_trend = is_significant and least > EVENLY / 4 * rise and rise > VISIBLE * deviation
    return slope / BLOCK_S if is_trend else 0.0


@entry("float64[:, ::1](float32[:, ::1], float64, float64[::1])")
def _read(means: npt.NDArray[np.float32], open_s: float, variance: Floats) -> Floats:
    """Return level and slope of the line, trend, and age in seconds of all series."""
    lines = np.empty((4, variance.size))
    for column in range(variance.size):
        of_it = means[:, column]
        lines[0, column], lines[1, column] = _line(of_it, open_s)
        lines[2, column] = _trend(of_it, np.sqrt(variance[column]))
        lines[3, column] = BLOCK_S * (BLOCKS - np.isnan(of_it).sum())
    return lines


class RecentMeans(SeriesState):
    """Keeps the newest closed blocks of n series in ``means``, oldest first, shape (BLOCKS, n); NaN where
    nothing was seen. ``open`` holds sum, number and total offset (s) of the values since the open block
    began."""

    means: npt.NDArray[np.float32] = array(BLOCKS, "n", fill=np.nan, dtype=np.float32)
    open: Floats = array(3, "n")

    def read(self, now_ms: int, variance: Floats) -> Floats:
        """Return of each series as of ``now_ms``, the last tick, shape (4, n): level and slope per second of
        the least-squares line through the newest blocks, NaN where too few are known; the slope per second of
        its trend, 0 without one; for how long it is known (s), of the time that is remembered. ``variance``
        (n,) is that of the values."""
        return _read(self.means, now_ms % BLOCK_MS / 1000, variance)
