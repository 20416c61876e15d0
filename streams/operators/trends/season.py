"""What a known cycle says about the future: the values one, two, … periods before the moment asked for.

Seasonal averaging over the newest periods, about a level that follows slow drift: the average of n periods
has an n-th of the noise's variance. Periods need not be whole: of each, the sample nearest in phase counts,
the more the nearer it is (kernel regression on the phase, E. A. Nadaraya and G. S. Watson 1964).
Nothing is kept here; it is read from the windows in which the cycle was found.
"""

from collections.abc import Sequence

import numpy as np

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.cycles.bank import LockedCycle

SEASONS = 2
"""Forecasters that know the cycle: all of the newest periods and their slope; the newest few, level."""
PERIODS = 32
"""Most periods that are averaged."""
FADING: tuple[float, ...] = (0.97, 0.5)
"""Weight of a period over that of the next newer one, per forecaster."""
NEAR = 0.03
"""Squared distance (samples) from the phase asked for at which a sample counts half."""
SMOOTHED = 16
"""Fewest samples that make a level."""
FEWEST = 4
TRIED = 24
"""How many of the newest samples forecasts are tried on, to know their error from the first moment."""


def season_of(cycles: Sequence[LockedCycle], columns: Ints) -> "Season | None":
    """Forecasters for those ``cycles``, all of one bank, that hold a whole period; None if there are none.

    Column j of the cycles is column ``columns[j]`` of the trends; -1 has no trend.
    """
    held = [
        one
        for one in cycles
        if columns[one.column] >= 0 and one.samples.size >= max(FEWEST, one.period_s * 1000 / one.interval_ms)
    ]
    if not held:
        return None
    interval_ms = held[0].interval_ms
    return Season(
        columns[[one.column for one in held]],
        np.array([one.period_s * 1000 / interval_ms for one in held]),
        [one.samples for one in held],
        interval_ms,
    )


class Season:
    """Forecasts of k series from their cycles.

    ``columns`` (k,) are those of the trends, ``periods`` (k,) in samples, and ``windows`` the samples of
    each since its cycle began, oldest first and none missing.
    """

    def __init__(self, columns: Ints, periods: Floats, windows: Sequence[Floats], interval_ms: int) -> None:
        self.columns, self.period_s = columns, periods * interval_ms / 1000
        self._interval_s = interval_ms / 1000
        self._periods = periods
        self._sizes = np.array([one.size for one in windows], np.int64)
        self._longest = int(self._sizes.max())
        # What is before a window's first sample is never read; sums begin at 0 to lose no digits.
        self._window = np.zeros((len(windows), self._longest))
        for row, one in zip(self._window, windows, strict=True):
            row[-one.size :] = one
        self._sums = np.zeros((len(windows), self._longest + 1))
        np.cumsum(self._window, axis=1, out=self._sums[:, 1:])
        self._width = np.rint(periods * np.ceil(SMOOTHED / periods)).astype(np.int64)
        self._width = np.clip(self._width, 2, self._sizes)
        self._slope = self._slopes()
        self._level = self._mean(self._width * 0, self._width) + self._slope * (self._width - 1) / 2

    def ahead(self, horizons_s: Floats) -> Floats:
        """What each forecaster expects so long after the newest sample, shape (horizons, SEASONS, k)."""
        steps = np.repeat(horizons_s[:, np.newaxis] / self._interval_s, self.columns.size, axis=1)
        shape = self._folded(steps)
        shape[0] += self._slope * steps
        return np.asarray((shape + self._level).transpose(1, 0, 2))

    def errors(self, places: Ints) -> Floats:
        """Mean absolute error of each forecaster of the series at ``places`` on their newest samples,
        shape (SEASONS, places)."""
        one = Season(
            self.columns[places],
            self._periods[places],
            [self._window[place, -self._sizes[place] :] for place in places.tolist()],
            int(self._interval_s * 1000),
        )
        return one._retrospect()

    def _retrospect(self) -> Floats:
        age = np.linspace(0, np.minimum(2 * self._periods, self._sizes / 2), TRIED).astype(np.int64)
        error = np.abs(self._folded(-age.astype(np.float64)) - self._shape(age))
        known = ~np.isnan(error)
        return np.asarray(np.where(known, error, 0.0).sum(axis=1) / np.maximum(known.sum(axis=1), 1))

    def _slopes(self) -> Floats:
        """Change per sample, (k,): the newest whole periods' mean against that of as many before them."""
        half = np.maximum(np.floor(self._sizes / (2 * self._periods)), 1) * self._periods
        newer = np.clip(np.rint(half).astype(np.int64), 1, np.maximum(self._sizes - 1, 1))
        older = np.clip(np.rint(2 * half).astype(np.int64), newer + 1, np.maximum(self._sizes, newer + 1))
        rise = self._mean(np.zeros_like(newer), newer) - self._mean(newer, older)
        return np.asarray(rise / (older / 2))

    def _mean(self, youngest: Ints, oldest: Ints) -> Floats:
        """Means of the samples of ages from ``youngest`` up to before ``oldest``; last axis is of series."""
        rows = np.arange(self.columns.size)
        high, low = self._longest - youngest, np.maximum(self._longest - oldest, 0)
        return np.asarray((self._sums[rows, high] - self._sums[rows, low]) / (high - low))

    def _shape(self, age: Ints) -> Floats:
        """The samples of so many samples' age less their means over the surrounding periods."""
        youngest = np.clip(age - self._width // 2, 0, self._sizes - self._width)
        middle = youngest + (self._width - 1) / 2
        value = self._window[np.arange(self.columns.size), self._longest - 1 - age]
        return np.asarray(value - self._mean(youngest, youngest + self._width) + self._slope * (age - middle))

    def _folded(self, steps: Floats) -> Floats:
        """The shape at ``steps`` (m, k) samples after the newest, from older ones: (SEASONS, m, k)."""
        first = np.maximum(np.ceil(steps / self._periods), 1)
        most = int((self._sizes / self._periods).max()) + 1
        back = np.arange(min(PERIODS, most), dtype=np.float64)[:, np.newaxis, np.newaxis]
        age = (first + back) * self._periods - steps
        nearest = np.rint(age)
        inside = (nearest >= 0) & (nearest < self._sizes)
        value = self._shape(np.where(inside, nearest, 0).astype(np.int64))
        near = inside / ((age - nearest) ** 2 + NEAR)
        out = np.empty((SEASONS, *steps.shape))
        for row, fading in enumerate(FADING):
            weight = near * fading**back
            total = weight.sum(axis=0)
            mean = (weight * value).sum(axis=0) / np.where(total > 0, total, 1.0)
            out[row] = np.where(total > 0, mean, np.nan)
        return out
