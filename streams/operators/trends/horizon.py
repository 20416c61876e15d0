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


class Horizons:
    """Forecasts of n series at ``horizons_s`` (ascending), and their errors so far.

    The errors are the rows of ``_state``, shape (horizons, ROWS, n).
    """

    def __init__(self, horizons_s: tuple[float, ...], n: int) -> None:
        self._ahead_s = np.array(horizons_s)
        self._kept = [PendingForecasts(horizon_s, KEPT, n) for horizon_s in horizons_s]
        self._overlap = np.cbrt([[one.slots] for one in self._kept])
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

    def check(self, ts_ms: int, values: Floats, present: Bools | None) -> None:
        """Measure the errors of the forecasts that were made for ``ts_ms``; ``values`` has shape (n,).

        ``present`` says which of them are there; None is all.
        """
        for state, one in zip(self._state, self._kept, strict=True):
            kept = one.take(ts_ms) if ts_ms + EARLY_MS >= one.next_ms else None
            if kept is None:
                continue
            usable = kept[MODELS] == kept[MODELS]
            if present is not None:
                usable &= present
            if usable.all():
                self._learn(state, kept, values)
            elif usable.any():
                some = state[:, usable]
                self._learn(some, kept[:, usable], values[usable])
                state[:, usable] = some
        self._plan()

    def _learn(self, state: Floats, kept: Floats, values: Floats) -> None:
        last = values - kept[MODELS]
        error = values - kept[:-1]
        # As wrong as the blend would have been with what is known of the forecasters now.
        error[-1] = values - _blend(kept[:MODELS], state[:MODELS])
        np.abs(error, out=error)
        np.sqrt(error[-1], out=error[-1])
        state[COUNT] += 1
        weight = np.maximum(2 / (1 + state[COUNT]), FADING)
        error -= state[:COUNT]
        error[:-1] *= weight
        error[-1] *= np.minimum(FASTER * weight, 1.0)
        error[SEASONAL] *= SEASONAL_FADING / weight
        error[:MODELS][np.isnan(kept[:MODELS])] = 0.0
        absent = np.isnan(kept[SEASONAL.start])
        # A forecast from before the cycle was found, or its end, says nothing of how wrong they are now.
        other = absent == (state[PERIOD] > 0)
        error[-1, other] = 0.0
        state[:COUNT] += error
        reach = state[POINTS] * kept[-1]
        missed = np.array((-last > reach[0], last > reach[1]))
        state[POINTS] += STEP * np.where(other, 0.0, missed - MISS)
        np.maximum(state[POINTS], 0.0, out=state[POINTS])

    def follow(self, season: Season | None) -> None:
        """The known cycles are those of ``season`` from now on.

        Where a cycle was found or lost, the interval changes at once, in proportion to the expected error.
        """
        period_s = np.zeros(self._state.shape[2])
        if season is not None:
            period_s[season.columns] = season.period_s
        changed = np.flatnonzero(np.abs(period_s - self._state[:1, PERIOD]) > ANOTHER * period_s)
        before = self._expected(changed) if changed.size else None
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
        after = self._expected(changed)
        ratio = np.where(before > 0, after, 1.0) / np.where(before > 0, before, 1.0)
        normal, known = NORMAL_ROOT * np.sqrt(NORMAL_ERROR * after), state[:, ROOT, changed]
        # What a cycle foretold to the byte had next to no error: its ratio to the others' says nothing.
        others = np.minimum(known * np.sqrt(ratio), np.maximum(known, normal))
        state[:, ROOT, changed] = np.where(state[:, PERIOD, changed] > 0, normal, others)

    def _expected(self, columns: Ints | slice) -> Floats:
        """The forecasters' weighted mean error, shape (horizons, columns)."""
        errors = self._state[:, :MODELS, columns]
        usable = np.ones(errors.shape, np.bool_)
        usable[:, SEASONAL] = self._state[:, PERIOD : PERIOD + 1, columns] > 0
        weights = _weights(errors, usable)
        return np.asarray((weights * errors).sum(axis=1) / weights.sum(axis=1))

    def forecast(
        self, ts_ms: int, holt: Holt, line: Line, age_s: Floats, season: Season | None
    ) -> tuple[Floats, Floats]:
        """Value and standard error of all columns, shape (horizons, n); NaN where ``age_s`` (n,) and the
        errors that were measured do not bear the horizon. They are kept for when their moment comes."""
        forecasts = np.full((len(self._kept), MODELS, holt.n), np.nan)
        forecasts[:, :FORECASTERS] = holt.forecasts(ts_ms, self._ahead_s)
        forecasts[:, LINE] = line.at(self._ahead_s)
        if season is not None:
            forecasts[:, SEASONAL, season.columns] = season.ahead(self._ahead_s)
        forecasts[:, :FORECASTERS, line.announced] = np.nan
        ahead_s = self._ahead_s[:, np.newaxis]
        unborne = ~holt.known(ts_ms) | (ahead_s > YOUNG * age_s) | (holt.unseen_s(ts_ms) > ahead_s)
        value, error = _blend(forecasts, self._state[:, :MODELS]), self._error()
        value[unborne] = np.nan
        for row, one in enumerate(self._kept):
            if one.has_room(ts_ms):
                one.put(ts_ms, np.vstack((forecasts[row], value[row], error[row])))
        self._plan()
        value[self._independent() < ENOUGH] = np.nan
        return value, error

    def interval(self, value: Floats, error: Floats) -> tuple[Floats, Floats]:
        """The 5 % and 95 % points of what ``forecast`` gave."""
        return value - self._state[:, BELOW] * error, value + self._state[:, ABOVE] * error

    def _independent(self) -> Floats:
        """How many errors count, shape (horizons, n)."""
        return np.asarray(np.minimum(self._state[:, COUNT], 2 / (FASTER * FADING)) / self._overlap)

    def _error(self) -> Floats:
        """Standard error, the larger the fewer errors it is known from: times the 95 % point of Student's
        distribution over that of the normal one, about."""
        few = 1 + 1 / (np.maximum(self._independent(), 1.0) - 0.7)
        return np.asarray((self._state[:, ROOT] / NORMAL_ROOT) ** 2 * few)

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


def _blend(forecasts: Floats, errors: Floats) -> Floats:
    """The forecasters' mean, each weighed by the inverse eighth power of its error; NaN is no forecast. The
    forecasters are along the last axis but one."""
    usable = forecasts == forecasts
    weights = _weights(errors, usable)
    total = (weights * np.where(usable, forecasts, 0.0)).sum(axis=-2)
    return np.asarray(total / weights.sum(axis=-2))


def _weights(errors: Floats, usable: Bools) -> Floats:
    """Inverse eighth powers of the errors, 0 where not ``usable``; one per column is, at least. The
    forecasters are along the last axis but one."""
    most = np.where(usable, errors, 0.0).max(axis=-2, keepdims=True)
    weights = np.where(most > 0, np.maximum(errors, LEAST * most), 1.0)
    weights[~usable] = np.inf
    weights /= weights.min(axis=-2, keepdims=True)
    weights *= weights
    weights *= weights
    weights *= weights
    return np.asarray(np.reciprocal(weights))
