"""Decides which trends are published: at once if something changed, else no more often than once a minute;
and with each all others of its subject, as a record has all of them.

Something changed when memory begins or ceases to run out, or will be full much sooner or later than was
published; when a cycle is found or lost; and when the level of a series without a cycle stays outside of its
forecast. A trend whose figures are those that were published is not published again.
"""

import numpy as np

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Bools, Floats, Ints
from streams.operators.columns.state import SeriesState, array
from streams.operators.columns.vectors import copy_into
from streams.operators.trends.bank import TrendForecast

QUIET_MS = 60_000
"""A trend whose figures moved is published again after so long."""
SETTLING_MS = 30_000
"""A series is published first when it was seen for so long: before, its forecasts are guesses."""
CONFIRMED = 3
"""Evaluations in a row that a level has to lie outside of the published forecast to be a change."""
SOONER = 0.25
"""Share of the time left by which the published end has to be wrong to be a change,"""
SECONDS = 60.0
"""and at least so many seconds."""
SAME = 1e-3
"""Share of the forecast's interval that figures may move and count as the same."""

ROWS = 12
SINCE_MS, PUBLISHED_MS = range(2)
LEVEL, SLOPE, HORIZONS, VALUE, LOW, HIGH, EXHAUSTS, CYCLIC, OUTSIDE, WIDTH = range(2, ROWS)
"""When the series was seen first and published last (ms); what was published: level, slope, number of
horizons, forecast at the farthest, bounds over all (NaN without any), seconds to exhaustion, whether there
was a cycle; evaluations outside of the bounds; width between them."""
NEVER = -1.0
_NOTHING = np.zeros((ROWS, 1))
"""Of a series of which nothing was published."""
_NOTHING[[SINCE_MS, PUBLISHED_MS, EXHAUSTS]] = NEVER


@kernel
def _is_due(ts_ms: int, now: Floats, last: Floats) -> bool:
    """Tell whether a series changed enough; notes in ``last`` since when it is seen, and how often
    outside."""
    if not np.isfinite(now[LEVEL]):
        last[SINCE_MS] = last[PUBLISHED_MS] = NEVER
        last[OUTSIDE] = 0
        return False
    if last[SINCE_MS] < 0:
        last[SINCE_MS] = ts_ms
    outside = now[LEVEL] < last[LOW] or now[LEVEL] > last[HIGH]
    last[OUTSIDE] = last[OUTSIDE] + 1 if outside and not now[CYCLIC] else 0
    if last[PUBLISHED_MS] < 0:
        return bool(ts_ms - last[SINCE_MS] >= SETTLING_MS)
    if last[CYCLIC] != now[CYCLIC] or last[OUTSIDE] >= CONFIRMED:
        return True
    # Memory began or ceased to run out, or does so at another time than was published.
    ends, ended = now[EXHAUSTS] >= 0, last[EXHAUSTS] >= 0
    left_s = last[EXHAUSTS] - (ts_ms - last[PUBLISHED_MS]) / 1000
    off = abs(now[EXHAUSTS] - left_s)
    if ends != ended or (ends and off > max(SOONER * max(left_s, 0.0), SECONDS)):
        return True
    moved = now[SLOPE] != last[SLOPE] or now[HORIZONS] != last[HORIZONS] or now[EXHAUSTS] != last[EXHAUSTS]
    for about in (LEVEL, VALUE, LOW, HIGH):
        # What has no forecast has no interval that it could stay in: its distance is NaN.
        moved |= not abs(now[about] - last[about]) <= SAME * last[WIDTH]
    return bool(moved and ts_ms - last[PUBLISHED_MS] >= QUIET_MS)


@entry(
    "int64[::1](int64, float64[::1], float64[::1], float64[:, :], float64[:, :], float64[:, :],"
    " float64[::1], boolean[::1], int64[::1], float64[:, ::1])"
)
def _changes(
    ts_ms: int, level: Floats, slope: Floats, value: Floats, p05: Floats, p95: Floats, exhausts: Floats,
    cyclic: Bools, subjects: Ints, published: Floats,
) -> Ints:  # fmt: skip
    """See ``TrendDebouncer.changes``."""
    figures, due = np.zeros((level.size, ROWS)), np.zeros(level.size, np.bool_)
    for column in range(level.size):
        now = figures[column]
        now[LEVEL], now[SLOPE], now[CYCLIC] = level[column], slope[column], cyclic[column]
        now[VALUE] = now[LOW] = now[HIGH] = np.nan
        for row in range(len(value)):
            far, low, high = value[row, column], p05[row, column], p95[row, column]
            now[HORIZONS] += np.isfinite(far) and np.isfinite(low) and np.isfinite(high)
            now[VALUE] = now[VALUE] if np.isnan(far) else far
            now[LOW], now[HIGH] = np.fmin(now[LOW], low), np.fmax(now[HIGH], high)  # the widest of all
        now[WIDTH] = now[HIGH] - now[LOW]
        now[EXHAUSTS] = NEVER if np.isnan(exhausts[column]) else exhausts[column]
        due[subjects[column]] |= _is_due(ts_ms, now, published[:, column])
    publish = due[subjects] & (published[SINCE_MS] >= 0) & (ts_ms - published[SINCE_MS] >= SETTLING_MS)
    columns = np.flatnonzero(publish)
    for changed in columns:
        published[PUBLISHED_MS, changed] = ts_ms
        copy_into(published[LEVEL:, changed], figures[changed, LEVEL:])
    return columns


class TrendDebouncer(SeriesState):
    """Remembers what was published of n series, in the rows of an array of shape (ROWS, n)."""

    _published: Floats = array(ROWS, "n", fill=_NOTHING)

    def changes(self, ts_ms: int, forecast: TrendForecast, cyclic: Bools, subjects: Ints) -> Ints:
        """Return the columns to publish of a ``forecast`` of all n; from now on they count as published.

        ``cyclic``, shape (n,), says which series have a cycle. ``subjects``, shape (n,): a number below n for
        each series, the same for all of one subject.
        """
        return _changes(
            ts_ms, forecast.level, forecast.slope_per_s, forecast.value, forecast.p05, forecast.p95,
            forecast.exhausts_in_s, cyclic, subjects, self._published,
        )  # fmt: skip
