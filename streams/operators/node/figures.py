"""Computes the figures of a window over all series of a node, in one compiled call: ``ClosedWindow`` says
what they are."""

from dataclasses import dataclass

import numpy as np

from dutycycle.contract.metering import LEAST_DRAWN_W
from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.series import GAUGE
from streams.operators.columns.vectors import sort

FIGURES = ("count", "mean", "std", "min", "max", "p50", "p95", "p99", "increase")
_COUNT, _MEAN, _STD, _MIN, _MAX, _P50, _P95, _P99, _INCREASE = range(9)


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """Holds one window; ``figures`` has shape (n, ``FIGURES``), and NaN for what is not known. ``last``,
    shape (2, counters): what the next of its size needs of its counters (``window_figures``).

    A gauge has all figures but ``increase``. ``max`` is the most within any tick, by the driver's samples
    where there are any; all others are of the ticks' values. ``std`` is the population's. Percentiles
    interpolate linearly between the two nearest values (definition 7 of Hyndman and Fan, Sample Quantiles in
    Statistical Packages, 1996). A cumulative counter has ``count`` and ``increase``: the sum of the steps
    that end in the window, each from the last value before it, in this window or in one before. A step down
    is a counter that began anew, and adds nothing; without a step there is no ``increase``. A counter of
    energy that is 0, or stands still while power is drawn, is not read (``contract.metering``).
    """

    size_ms: int
    start_ms: int
    figures: Floats
    last: Floats

    @property
    def end_ms(self) -> int:
        """Return when it ends."""
        return self.start_ms + self.size_ms

    def of(self, figure: str) -> Floats:
        """Return one of ``FIGURES``, shape (n,)."""
        return self.figures[:, FIGURES.index(figure)]


@kernel
def _in_order(times: Ints, start: int, end: int) -> Ints:
    """Return the rows of a window by time, and those of one time as they came."""
    inside = np.empty(len(times), np.int64)
    count = 0
    for row in range(len(times)):
        if start <= times[row] < end:
            at = count
            while at > 0 and times[inside[at - 1]] > times[row]:
                inside[at] = inside[at - 1]
                at -= 1
            inside[at] = row
            count += 1
    return inside[:count]


@kernel
def _counter(
    last: float, before: float, inside: Ints, rows: Floats, column: int, power: int, figures: Floats
) -> tuple[float, float]:
    """Fill in how many values were read, and the sum of the steps up, each from the value before it: absent
    without any. A value that is back where the counter was ``before`` a step down is a step from there. Give
    the last value, and that before it if it was higher. ``power``: the column of what the GPU draws, or below
    0."""
    figures[_COUNT] = 0
    for row in inside:
        value = rows[row, column]
        stands_still = value == last and power >= 0 and rows[row, power] > LEAST_DRAWN_W
        if np.isnan(value) or value == 0 or stands_still:  # as in ``contract.metering.joules_of_tick``
            continue
        figures[_COUNT] += 1
        if value < last:
            before = last if np.isnan(before) else before
        elif value >= last:
            step = value - (before if value >= before else last)
            figures[_INCREASE] = step if np.isnan(figures[_INCREASE]) else figures[_INCREASE] + step
            before = np.nan if value > last else before
        last = value
    return last, before


@kernel
def _gauge(values: Floats, figures: Floats) -> None:
    """Write every figure but the count, of at least one value. Sorts ``values``."""
    total = 0.0
    for value in values:
        total += value
    mean = total / len(values)
    spread = 0.0
    for value in values:
        spread += (value - mean) * (value - mean)
    sort(values)
    figures[_STD] = np.sqrt(spread / len(values))
    figures[_MIN], figures[_MAX] = values[0], values[-1]
    # A mean of equal values can miss them by a rounding step; it never lies outside of them.
    figures[_MEAN] = min(max(mean, values[0]), values[-1])
    figures[_P50] = _percentile(values, 0.50)
    figures[_P95] = _percentile(values, 0.95)
    figures[_P99] = _percentile(values, 0.99)


@kernel
def _percentile(ordered: Floats, q: float) -> float:
    position = (len(ordered) - 1) * q
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return float(ordered[below] + (ordered[above] - ordered[below]) * (position - below))


@entry(
    "void(int64[::1], float64[:, ::1], float64[:, ::1], int64, int64, int64[::1], float64[:, ::1], "
    "float64[:, ::1])"
)
def window_figures(
    times: Ints, rows: Floats, highs: Floats, start: int, end: int, powers: Ints, last: Floats,
    figures: Floats,
) -> None:  # fmt: skip
    """Fill ``figures``, shape (n, ``FIGURES``), from the rows whose time is in ``[start, end)``.

    ``times``, ``rows`` and ``highs`` (of each value the most within its tick) are in the order of arrival.
    ``powers``: the columns of the power of cumulative counters (``powers_of_counters``); ``last``, shape
    (2, counters): the counters' values before the window, which become those at its end, and what they were
    before the last step if that went down.
    """
    inside = _in_order(times, start, end)
    values = np.empty(len(inside))
    figures[:] = np.nan
    counter = 0
    for column in range(rows.shape[1]):
        if powers[column] != GAUGE:
            last[0, counter], last[1, counter] = _counter(
                last[0, counter], last[1, counter], inside, rows, column, powers[column], figures[column]
            )
            counter += 1
            continue
        count = 0
        for row in inside:
            if not np.isnan(rows[row, column]):
                values[count] = rows[row, column]
                count += 1
        figures[column, _COUNT] = count
        if count > 0:
            _gauge(values[:count], figures[column])
            for row in inside:
                figures[column, _MAX] = np.fmax(figures[column, _MAX], highs[row, column])
