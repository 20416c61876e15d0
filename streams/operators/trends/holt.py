"""Computes Holt's linear smoothing in columns, the slow mean, and what they expect next.

Source: C. C. Holt 1957, in the error form of Hyndman and Athanasopoulos, "Forecasting: Principles and
Practice", 8.1-8.2 (damped: E. S. Gardner and E. McKenzie 1985). Initial values as in River.
"""

import numpy as np

from streams.compiled import kernel
from streams.operators.columns.arrays import Floats
from streams.operators.columns.state import SeriesState, array

INTERVAL_MS = 1000
"""The nominal time between ticks, to which the gains belong."""
ALPHA, BETA = 0.3, 0.05
"""Holt's gains of level and slope for one ``INTERVAL_MS``; other gaps have gains of their own."""
DAMP_S = 30.0
"""Time constant of the damping: a slope is followed for about so long into the future."""
RESET_MS = 120_000
"""A series that was not seen for longer begins anew."""
ROWS = 9
LEVEL, SLOPE, NEWEST, MEAN, VARIANCE, SEEN_MS, COUNT, FINE, READ = range(ROWS)
"""``MEAN`` is the slow mean of the values, ``VARIANCE`` theirs about it; ``FINE`` is 1 once a value was no
whole number; ``READ`` was read at the moment of the newest value, which may be a mean."""
BEGUN = 2
"""Values after which a series has a level and a slope."""
FORECASTERS = 3
"""Persistence, the damped line, and the slow mean,"""
SLOW_MEAN = 2
"""which is this of them."""
MEAN_S = 180.0
"""Time constant of the slow mean."""
TOO_LARGE = 1e30
"""No real measurement is this large, and its square still fits: larger values count as absent."""


@kernel
def is_measured(value: float) -> bool:
    """Tell whether it is a value; NaN is absent."""
    return abs(value) < TOO_LARGE


@kernel
def update_holt(ts_ms: int, values: Floats, readings: Floats, state: Floats) -> None:
    """Take one tick; nearly all columns were there at the last, too, and share its gains."""
    dt_ms, gain_of_level, gain_of_slope, gain_of_mean = 0.0, 0.0, 0.0, 0.0
    for column in range(values.size):
        value, trend = values[column], state[:, column]
        if not is_measured(value):
            continue
        age_ms = ts_ms - trend[SEEN_MS]
        if trend[COUNT] == 1 and age_ms <= RESET_MS:  # the second value gives it a slope
            trend[SLOPE] = (value - trend[LEVEL]) / age_ms * 1000
            trend[LEVEL] = (value + trend[LEVEL]) / 2
            trend[COUNT] = BEGUN
        elif trend[COUNT] < BEGUN or age_ms > RESET_MS:
            trend[:] = 0.0
            trend[LEVEL] = trend[MEAN] = value
            trend[COUNT] = 1
        else:
            if age_ms != dt_ms:  # the gains of such a step follow from those of one interval
                dt_ms, steps, dt_s = age_ms, age_ms / INTERVAL_MS, age_ms / 1000
                gain_of_level = 1 - (1 - ALPHA) ** steps
                gain_of_slope = (1 - (1 - BETA) ** steps) * gain_of_level / dt_s
                gain_of_mean = 1 - np.exp(-dt_s / MEAN_S)
            predicted = trend[SLOPE] * (dt_ms / 1000) + trend[LEVEL]
            error, off = value - predicted, value - trend[MEAN]
            trend[LEVEL] = error * gain_of_level + predicted
            trend[SLOPE] += error * gain_of_slope
            trend[MEAN] += off * gain_of_mean
            trend[VARIANCE] += (off * off - trend[VARIANCE]) * gain_of_mean
        trend[NEWEST], trend[SEEN_MS] = value, ts_ms
        trend[READ] = readings[column] if is_measured(readings[column]) else value
        if value != np.floor(value):
            trend[FINE] = 1.0


@kernel
def is_known(now_ms: int, trend: Floats) -> bool:
    """Tell whether a series can be forecast: seen twice, and not too long ago."""
    return bool(trend[SEEN_MS] >= now_ms - RESET_MS and trend[COUNT] >= BEGUN)


@kernel
def expect(ahead_s: float, unseen_s: float, trend: Floats, expected: Floats) -> None:
    """Fill in what each forecaster expects so long after now; the series was not seen for ``unseen_s``."""
    followed_s = DAMP_S * (1 - np.exp(-(ahead_s + unseen_s) / DAMP_S))
    expected[0], expected[2] = trend[NEWEST], trend[MEAN]
    expected[1] = trend[SLOPE] * followed_s + trend[LEVEL]


class Holt(SeriesState):
    """Keeps level, slope and slow mean of n series, in the rows of ``state``, shape (ROWS, n)."""

    state: Floats = array(ROWS, "n")
