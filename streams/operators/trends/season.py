"""Says what a known cycle says about the future: the values one, two, … periods before the moment asked for.

Seasonal averaging over the newest periods, about a level that follows slow drift: the average of n periods
has an n-th of the noise's variance. Periods need not be whole: of each, the sample nearest in phase counts,
the more the nearer it is (kernel regression on the phase, E. A. Nadaraya and G. S. Watson 1964).
Nothing is kept here; it is read from the windows in which the cycle was found.
"""

from typing import TYPE_CHECKING

import numpy as np

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats, Ints

if TYPE_CHECKING:  # so that both are compiled side by side (streams/compile.py)
    from streams.operators.cycles.bank import LockedCycles

SEASONS = 2
"""Forecasters that know the cycle: all of the newest periods and their slope; the newest few, level."""
PERIODS = 32
"""Most periods that are averaged."""
FADING: tuple[float, ...] = (0.97, 0.5)
"""Weight of a period over that of the next newer one, per forecaster."""
_FADED = np.array([[fading**back for back in range(PERIODS)] for fading in FADING])
NEAR = 0.03
"""Squared distance (samples) from the phase asked for at which a sample counts half."""
SMOOTHED = 16
"""Fewest samples that make a level."""
FEWEST = 4
TRIED = 24
"""How many of the newest samples forecasts are tried on, to know their error from the first moment."""


def season_of(cycles: "LockedCycles", columns: Ints) -> "Season":
    """Return forecasters for those ``cycles`` that hold a whole period.

    Column j of the cycles is column ``columns[j]`` of the trends; -1 has no trend.
    """
    (samples, bounds), interval_ms = cycles.windows, cycles.interval_ms
    mine, periods = columns[cycles.columns], cycles.periods_s * 1000 / interval_ms
    holds = (mine >= 0) & (bounds[:, 1] - bounds[:, 0] >= np.maximum(periods, FEWEST))
    if holds.all():
        return Season(mine, periods, cycles.windows, interval_ms)
    held = holds.nonzero()[0]
    return Season(mine[held], periods[held], (samples[held], bounds[held]), interval_ms)


@kernel
def _mean(sums: Floats, youngest: int, oldest: int) -> float:
    """Return the mean of the samples of ages from ``youngest`` up to before ``oldest``."""
    end, begin = sums.size - 1 - youngest, sums.size - 1 - oldest
    return float((sums[end] - sums[begin]) / (end - begin))


@kernel
def _known(window: Floats, period: float) -> tuple[Floats, int, float, float]:
    """Return of a series the sums of its samples up to each, how many make its level, its drift, and its
    level."""
    size, sums = window.size, np.zeros(window.size + 1)
    for place in range(size):
        sums[place + 1] = sums[place] + window[place]
    width = min(max(int(np.rint(period * np.ceil(SMOOTHED / period))), 2), size)
    # Change per sample: the newest whole periods' mean against that of as many before them.
    half = max(np.floor(size / (2 * period)), 1.0) * period
    newer = min(max(int(np.rint(half)), 1), size - 1)
    older = min(max(int(np.rint(2 * half)), newer + 1), size)
    drift = (_mean(sums, 0, newer) - _mean(sums, newer, older)) / (older / 2)
    return sums, width, drift, _mean(sums, 0, width) + drift * (width - 1) / 2


@kernel
def _shape(window: Floats, sums: Floats, width: int, drift: float, age: int) -> float:
    """Return the sample of this age less the mean over the surrounding periods."""
    youngest = min(max(age - width // 2, 0), window.size - width)
    middle = youngest + (width - 1) / 2
    value = window[window.size - 1 - age]
    return float(value - _mean(sums, youngest, youngest + width) + drift * (age - middle))


@kernel
def _folded(
    steps: float, period: float, window: Floats, sums: Floats, width: int, drift: float, shape: Floats
) -> None:
    """Write into ``shape`` what each forecaster expects so many steps after the newest sample."""
    first = max(np.ceil(steps / period), 1.0)
    total = np.zeros(SEASONS)
    shape[:] = 0.0
    for back in range(PERIODS):
        age = (first + back) * period - steps
        nearest = np.rint(age)
        if nearest >= window.size:
            break
        off = age - nearest
        value = _shape(window, sums, width, drift, int(nearest))
        for row in range(SEASONS):
            weight = 1 / (off * off + NEAR) * _FADED[row, back]
            total[row] += weight
            shape[row] += weight * value
    for row in range(SEASONS):
        shape[row] = shape[row] / total[row] if total[row] > 0 else np.nan


@entry("float64[:, :, ::1](float64[::1], float64[::1], float64[:, ::1], int64[:, ::1])")
def _ahead(steps: Floats, periods: Floats, samples: Floats, bounds: Ints) -> Floats:
    """Return what each forecaster expects, shape (steps, SEASONS, periods)."""
    expected, shape = np.empty((steps.size, SEASONS, periods.size)), np.empty(SEASONS)
    for place, period in enumerate(periods):
        window = samples[place, bounds[place, 0] : bounds[place, 1]]
        sums, width, drift, level = _known(window, period)
        for row, ahead in enumerate(steps):
            _folded(ahead, period, window, sums, width, drift, shape)
            shape[0] += drift * ahead
            for season in range(SEASONS):
                expected[row, season, place] = shape[season] + level
    return expected


@entry("float64[:, ::1](int64[::1], float64[::1], float64[:, ::1], int64[:, ::1])")
def _errors(places: Ints, periods: Floats, samples: Floats, bounds: Ints) -> Floats:
    """Return the mean absolute error of each forecaster on the newest samples, shape (SEASONS, places)."""
    errors, shape = np.zeros((SEASONS, places.size)), np.empty(SEASONS)
    for column, place in enumerate(places):
        window, period = samples[place, bounds[place, 0] : bounds[place, 1]], periods[place]
        sums, width, drift, _ = _known(window, period)
        known, oldest = np.zeros(SEASONS), min(2 * period, window.size / 2)
        for tried in range(TRIED):
            age = int(tried * (oldest / (TRIED - 1)) if tried < TRIED - 1 else oldest)
            _folded(-float(age), period, window, sums, width, drift, shape)
            truth = _shape(window, sums, width, drift, age)
            for row in range(SEASONS):
                if not np.isnan(shape[row]):
                    errors[row, column] += abs(shape[row] - truth)
                    known[row] += 1
        for row in range(SEASONS):
            errors[row, column] /= max(known[row], 1.0)
    return errors


class Season:
    """Forecasts k series from their cycles.

    ``columns`` (k,) are those of the trends, ``periods`` (k,) in samples, and ``windows`` the samples of
    each since its cycle began (``cycles.detect.window.Windows``).
    """

    def __init__(
        self, columns: Ints, periods: Floats, windows: tuple[Floats, Ints], interval_ms: int
    ) -> None:
        self.columns, self.period_s = columns, periods * interval_ms / 1000
        self._interval_s = interval_ms / 1000
        self._periods, self._windows = periods, windows

    def ahead(self, horizons_s: Floats) -> Floats:
        """Return what each forecaster expects so long after the newest sample, shape (horizons, SEASONS,
        k)."""
        return _ahead(horizons_s / self._interval_s, self._periods, *self._windows)

    def errors(self, places: Ints) -> Floats:
        """Return the mean absolute error of each forecaster of the series at ``places`` on their newest
        samples, shape (SEASONS, places)."""
        return _errors(places, self._periods, *self._windows)


NO_SEASON = Season(
    np.zeros(0, np.int64), np.zeros(0), (np.zeros((0, 0)), np.zeros((0, 2), np.int64)), interval_ms=1000
)
"""Where no series has a cycle."""
