"""Forecasts at several horizons: simple forecasters, weighed by their recent errors at each horizon.

A forecast is kept until its moment comes and is then compared with what was measured. So the interval is that
of errors really made at this horizon, and needs no model of how errors grow; before enough were made, there
is no forecast. Of the errors the mean root counts, which a few large ones move less than a mean square.
The weights are those of J. M. Bates and C. W. J. Granger 1969 with a higher power. The 5 % and 95 % points
follow the share of misses (adaptive conformal inference, I. Gibbs and E. Candès 2021). While a series has a
cycle, forecasters that know it are blended in. They begin with the error that they would have had on the
newest samples.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Bools, Floats, Ints, pack, remap, unpack
from streams.operators.trends.holt import FORECASTERS, INTERVAL_MS, Holt
from streams.operators.trends.line import Line
from streams.operators.trends.pending import NEVER_MS, PendingForecasts
from streams.operators.trends.season import SEASONS, Season

LINE = FORECASTERS
"""The undamped line through the last minutes, or that of an announced exhaustion; the others are Holt's."""
SEASONAL = slice(LINE + 1, LINE + 1 + SEASONS)
"""The forecasters that know the cycle."""
MODELS = SEASONAL.stop
ROWS = MODELS + 5
ROOT, COUNT, BELOW, ABOVE, PERIOD = range(MODELS, ROWS)
"""Rows after the forecasters' mean absolute errors: the mean root of their blend's, the number of errors
seen, how many standard errors the 5 % and 95 % points lie away, and the period that is known (s)."""
POINTS = slice(BELOW, PERIOD)
"""The rows of the 5 % and 95 % points."""
KEPT = MODELS + 2
"""Rows of a kept forecast: each forecaster's, the blend, and its standard error."""
MISS, STEP = 0.05, 0.12
"""Share of values that may lie beyond a point; and how far, in standard errors, a miss moves it."""
NORMAL_ERROR = 1.2533
"""Standard over mean absolute error of a normal distribution."""
NORMAL_ROOT = 0.8222
"""Mean root of the absolute value of a standard normal variable."""
NORMAL = 1.645
"""Standard errors to the 95 % point of a normal distribution: where the points begin."""
FADING, FASTER = 0.04, 1.5
"""Least weight of the newest error in the forecasters' mean errors, and how much faster those of the blend
fade: what was forecast while a model was loaded says nothing of what comes then."""
ENOUGH = 1.5
"""Fewest errors, of which those that overlap in time count as one, that bear a horizon."""
YOUNG = 5
"""A series is forecast no farther than so many times its age."""
SEASONAL_FADING = 0.04
"""The weight for forecasters that know the cycle, whose first error is one in retrospect."""
ANOTHER = 0.05
"""Share by which the period of another cycle differs."""
EARLY_MS = INTERVAL_MS // 10
"""A tick that comes up to so much too soon, by jitter, is the one that was forecast."""
LEAST = 1e-6
"""Share of the largest error below which an error makes no further difference."""


@kernel
def _blended(forecasts: Floats, errors: Floats) -> float:
    """The mean of a series' forecasts, each weighed by the inverse eighth power of its error; NaN is no
    forecast."""
    most, least = 0.0, np.inf
    for model in range(MODELS):
        if not np.isnan(forecasts[model]):
            most, least = max(most, errors[model]), min(least, errors[model])
    floor = LEAST * most
    least, value, total = max(least, floor), 0.0, 0.0
    for model in range(MODELS):
        if not np.isnan(forecasts[model]):
            weight = max(errors[model], floor) / least if most > 0 else 1.0
            weight *= weight
            weight *= weight
            weight = 1 / (weight * weight)
            value += weight * forecasts[model]
            total += weight
    return value / total


@kernel
def _learn_one(value: float, kept: Floats, state: Floats) -> None:
    """Learn the errors of one series."""
    other = np.isnan(kept[SEASONAL.start]) == (state[PERIOD] > 0)
    # As wrong as the blend would have been with what is known of the forecasters now.
    blended = _blended(kept, state)
    state[COUNT] += 1
    weight = max(2 / (1 + state[COUNT]), FADING)
    for model in range(MODELS):
        if not np.isnan(kept[model]):
            error = (abs(value - kept[model]) - state[model]) * weight
            if model >= SEASONAL.start:
                error *= SEASONAL_FADING / weight
            state[model] += error
    # A forecast from before the cycle was found, or its end, says nothing of how wrong they are now.
    if other:
        return
    state[ROOT] += (np.sqrt(abs(value - blended)) - state[ROOT]) * min(FASTER * weight, 1.0)
    last, error = value - kept[MODELS], kept[MODELS + 1]
    below, above = -last > state[BELOW] * error, last > state[ABOVE] * error
    state[BELOW] = max(state[BELOW] + STEP * (below - MISS), 0.0)
    state[ABOVE] = max(state[ABOVE] + STEP * (above - MISS), 0.0)


@entry("void(float64[::1], float32[:, ::1], float64[:, ::1])")
def _learn(values: Floats, kept: npt.NDArray[np.float32], state: Floats) -> None:
    """Learn the errors of what was ``kept``, where it was forecast and is measured."""
    for column in range(values.size):
        if not (np.isnan(values[column]) or np.isnan(kept[MODELS, column])):
            _learn_one(values[column], kept[:, column].astype(np.float64), state[:, column])


@entry("boolean[:, ::1](boolean[:, ::1], float64[::1], float64[:, :, ::1], float64[:, :, ::1])")
def _blend(borne: Bools, overlap: Floats, state: Floats, forecasts: Floats) -> Bools:
    """Fill in the blends that are ``borne``, and the standard errors of all; which are known from enough
    errors."""
    enough = np.empty(borne.shape, np.bool_)
    for row in range(len(forecasts)):
        for column in range(forecasts.shape[2]):
            known, of_it = state[row, :, column], forecasts[row, :, column]
            of_it[MODELS] = _blended(of_it, known) if borne[row, column] else np.nan
            independent = min(known[COUNT], 2 / (FASTER * FADING)) / overlap[row]
            enough[row, column] = independent >= ENOUGH
            # Larger, the fewer errors it is known from: times the 95 % point of Student's distribution over
            # that of the normal one, about.
            few, root = 1 + 1 / (max(independent, 1.0) - 0.7), known[ROOT] / NORMAL_ROOT
            of_it[MODELS + 1] = root * root * few
    return enough


@entry("float64[:, ::1](float64[:, :, ::1], int64[::1])")
def _expected(state: Floats, columns: Ints) -> Floats:
    """The forecasters' weighted mean error, shape (horizons, columns)."""
    expected = np.empty((len(state), columns.size))
    for row in range(len(state)):
        for place, column in enumerate(columns):
            errors = state[row, :MODELS, column].copy()
            if not state[row, PERIOD, column] > 0:
                errors[SEASONAL.start :] = np.nan
            expected[row, place] = _blended(errors, errors)
    return expected


class Horizons:
    """Forecasts of n series at ``horizons_s`` (ascending), and their errors so far.

    The errors are the rows of ``_state``, shape (horizons, ROWS, n).
    """

    def __init__(self, horizons_s: tuple[float, ...], n: int) -> None:
        self._ahead_s = np.array(horizons_s)
        self._kept = [PendingForecasts(horizon_s, KEPT, n) for horizon_s in horizons_s]
        self._overlap = np.cbrt([one.slots for one in self._kept])
        self._state = np.zeros((len(horizons_s), ROWS, n))
        self._state[:, POINTS] = NORMAL
        self._next_ms = NEVER_MS

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._state = remap(self._state, keep, 0.0)
        self._state[:, POINTS, keep < 0] = NORMAL
        for one in self._kept:
            one.resize(keep)

    def _plan(self) -> None:
        """Work out when the next forecast is to be checked."""
        self._next_ms = min((one.next_ms for one in self._kept), default=NEVER_MS)

    def is_due(self, ts_ms: int) -> bool:
        """Whether a forecast was made for ``ts_ms``, or for a moment before it."""
        return ts_ms + EARLY_MS >= self._next_ms

    def check(self, ts_ms: int, values: Floats) -> None:
        """Measure the errors of the forecasts that were made for ``ts_ms``; ``values`` has shape (n,), NaN is
        absent."""
        for state, one in zip(self._state, self._kept, strict=True):
            kept = one.take(ts_ms) if ts_ms + EARLY_MS >= one.next_ms else None
            if kept is not None:
                _learn(values, kept, state)
        self._plan()

    def follow(self, season: Season | None) -> None:
        """The known cycles are those of ``season`` from now on.

        Where a cycle was found or lost, the interval changes at once, in proportion to the expected error.
        """
        period_s = np.zeros(self._state.shape[2])
        if season is not None:
            period_s[season.columns] = season.period_s
        changed = np.flatnonzero(np.abs(period_s - self._state[:1, PERIOD]) > ANOTHER * period_s)
        before = _expected(self._state, changed) if changed.size else None
        self._state[:, PERIOD] = period_s
        if before is not None:
            self._begin(changed, before, season)

    def _begin(self, changed: Ints, before: Floats, season: Season | None) -> None:
        """Begin anew in the columns whose cycles ``changed``; ``before`` is the error expected until now."""
        state = self._state
        state[:, SEASONAL, changed] = 0.0
        if season is not None:
            begun = np.flatnonzero(np.isin(season.columns, changed))
            if begun.size:
                state[:, SEASONAL, season.columns[begun]] = season.errors(begun)
        after = _expected(self._state, changed)
        ratio = np.where(before > 0, after, 1.0) / np.where(before > 0, before, 1.0)
        normal, known = NORMAL_ROOT * np.sqrt(NORMAL_ERROR * after), state[:, ROOT, changed]
        # What a cycle foretold to the byte had next to no error: its ratio to the others' says nothing.
        others = np.minimum(known * np.sqrt(ratio), np.maximum(known, normal))
        state[:, ROOT, changed] = np.where(state[:, PERIOD, changed] > 0, normal, others)

    def forecast(
        self, ts_ms: int, holt: Holt, line: Line, age_s: Floats, season: Season | None
    ) -> tuple[Floats, Floats]:
        """Value and standard error of all columns, shape (horizons, n); NaN where ``age_s`` (n,) and the
        errors that were measured do not bear the horizon. They are kept for when their moment comes."""
        forecasts = np.full((len(self._kept), KEPT, holt.n), np.nan)
        forecasts[:, :FORECASTERS] = holt.forecasts(ts_ms, self._ahead_s)
        forecasts[:, LINE] = line.at(self._ahead_s)
        if season is not None:
            forecasts[:, SEASONAL, season.columns] = season.ahead(self._ahead_s)
        forecasts[:, :FORECASTERS, line.announced] = np.nan
        ahead_s = self._ahead_s[:, np.newaxis]
        borne = holt.known(ts_ms) & (ahead_s <= YOUNG * age_s) & (holt.unseen_s(ts_ms) <= ahead_s)
        enough = _blend(borne, self._overlap, self._state, forecasts)
        for of_it, one in zip(forecasts, self._kept, strict=True):
            if one.has_room(ts_ms):
                one.put(ts_ms, of_it)
        self._plan()
        return np.where(enough, forecasts[:, MODELS], np.nan), forecasts[:, MODELS + 1]

    def interval(self, value: Floats, error: Floats) -> tuple[Floats, Floats]:
        """The 5 % and 95 % points of what ``forecast`` gave."""
        return value - self._state[:, BELOW] * error, value + self._state[:, ABOVE] * error

    def snapshot(self) -> list[dict[str, Any]]:
        """Plain data of each horizon."""
        return [
            {**one.snapshot(), "state": pack(state)}
            for state, one in zip(self._state, self._kept, strict=True)
        ]

    def restore(self, plain: list[dict[str, Any]]) -> None:
        """Go on from a snapshot of the same number of columns and horizons."""
        for state, one, of_it in zip(self._state, self._kept, plain, strict=True):
            state[:] = unpack(of_it["state"], "f8", state.shape)
            one.restore(of_it)
        self._plan()
