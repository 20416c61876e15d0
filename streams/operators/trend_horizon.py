"""One forecast horizon: several simple forecasters, weighed by how wrong each was there lately.

A forecast is kept until its moment comes and is then held against what was measured. So the interval is
that of errors really made at this horizon, and needs no model of how errors grow. The weights are those
of J. M. Bates and C. W. J. Granger 1969 with a higher power; the 5 % and 95 % points follow the share of
misses (adaptive conformal inference, I. Gibbs and E. Candès 2021). While a series has a rhythm, forecasters
that know it are blended in, with the error that they would have had lately to begin with.
"""

from typing import Any

import numpy as np

from streams.operators.bank_state import Bools, Floats, Ints, pack, remap, unpack
from streams.operators.trend_holt import FORECASTERS, Holt
from streams.operators.trend_season import SEASONS, Season

LINE = 1
"""The damped line among the forecasters."""
MODELS = FORECASTERS + SEASONS
ROWS = MODELS + 5
SQUARED, COUNT, BELOW, ABOVE, PERIOD = range(MODELS, ROWS)
"""Rows after the forecasters' mean absolute errors: the mean squared error of their blend, the number of
errors seen, how many standard errors the 5 % and 95 % points lie away, and the period that is known (s)."""
POINTS = slice(BELOW, PERIOD)
RHYTHM = slice(FORECASTERS, MODELS)
KEPT = MODELS + 2
"""Rows of a kept forecast: each forecaster's, the blend, and its standard error."""
MISS, STEP = 0.05, 0.12
NORMAL_ERROR = 1.2533
"""Standard over mean absolute error of a normal distribution."""
NORMAL = 1.645
"""Standard errors to the 95 % point of a normal distribution: where the points begin."""
FADING = 0.05
PRIOR = 2.0
SLOTS = 6
EVERY_S = 16.0
"""A forecast is kept no more often than this."""
NEVER_MS = 1 << 62
RHYTHM_FADING = 0.1
"""The same as ``FADING`` for forecasters that know the rhythm, whose first error is one in retrospect."""
ANOTHER = 0.05
"""Share by which the period of another rhythm differs."""
LEAST = 1e-6
"""Share of the largest error below which an error makes no further difference."""

Columns = Ints | slice
ALL = slice(None)


class Horizon:
    """Forecasts ``horizon_s`` ahead for n series, and their errors so far.

    From ``next_ms`` on a forecast is to be checked, from ``issue_ms`` on the next one can be kept.
    """

    def __init__(self, horizon_s: float, n: int) -> None:
        self._horizon_s = horizon_s
        self._slots = min(SLOTS, int(np.ceil(horizon_s / EVERY_S)))
        self._every_ms = int(max(horizon_s / self._slots, EVERY_S) * 1000)
        self._due: list[int] = [-1] * self._slots
        self._turn = 0
        self.next_ms, self.issue_ms = NEVER_MS, 0
        self._state = np.zeros((ROWS, n))
        self._state[POINTS] = NORMAL
        self._kept = np.full((self._slots, KEPT, n), np.nan, np.float32)

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._state = remap(self._state, keep, 0.0)
        self._state[POINTS, keep < 0] = NORMAL
        self._kept = remap(self._kept, keep, np.nan)

    def check(self, ts_ms: int, interval_ms: int, values: Floats, present: Bools | None) -> None:
        """Hold the forecast that was made for now against ``values``; one that is long past is forgotten."""
        slot = min(range(self._slots), key=lambda one: (self._due[one] < 0, self._due[one]))
        due_ms = self._due[slot]
        self._due[slot] = -1
        self._plan()
        if ts_ms - due_ms > max(2 * interval_ms, self._every_ms // 4):
            return
        kept = self._kept[slot].astype(np.float64)
        usable = kept[0] == kept[0]
        if present is not None:
            usable &= present
        if usable.all():
            self._learn(self._state, kept, values)
        elif usable.any():
            state = self._state[:, usable]
            self._learn(state, kept[:, usable], values[usable])
            self._state[:, usable] = state

    def _learn(self, state: Floats, kept: Floats, values: Floats) -> None:
        error = values - kept[:-1]
        state[COUNT] += 1
        weight = np.maximum(1 / state[COUNT], FADING)
        last = error[-1].copy()
        np.abs(error, out=error)
        error[-1] *= error[-1]
        error -= state[:COUNT]
        error *= weight
        absent = np.isnan(kept[FORECASTERS])
        error[RHYTHM] *= RHYTHM_FADING / weight
        error[RHYTHM, absent] = 0.0
        # A forecast from before the rhythm was found, or its end, says nothing of how wrong they are now.
        other = absent == (state[PERIOD] > 0)
        error[-1, other] = 0.0
        state[:COUNT] += error
        reach = state[POINTS] * kept[-1]
        missed = np.array((-last > reach[0], last > reach[1]))
        state[POINTS] += STEP * np.where(other, 0.0, missed - MISS)
        np.maximum(state[POINTS], 0.0, out=state[POINTS])

    def follow(self, season: Season | None) -> None:
        """Take up the rhythms of ``season``, and let go of all others; the interval changes at once, by
        how much less or more is expected to be wrong."""
        state, period_s = self._state, np.zeros(self._state.shape[1])
        if season is not None:
            period_s[season.columns] = season.period_s
        changed = np.flatnonzero(np.abs(period_s - state[PERIOD]) > ANOTHER * period_s)
        changed = changed[(period_s[changed] > 0) | (state[PERIOD, changed] > 0)]
        before = self._expected(changed)
        state[PERIOD] = period_s
        if not changed.size:
            return
        state[RHYTHM, changed] = 0.0
        begun = np.flatnonzero(np.isin(season.columns, changed)) if season is not None else changed[:0]
        if season is not None and begun.size:
            state[RHYTHM, season.columns[begun]] = season.errors(begun)
        after = self._expected(changed)
        state[SQUARED, changed] = np.where(
            period_s[changed] > 0,
            (NORMAL_ERROR * after) ** 2,
            state[SQUARED, changed]
            * (np.where(before > 0, after, 1.0) / np.where(before > 0, before, 1.0)) ** 2,
        )

    def _expected(self, columns: Columns) -> Floats:
        """The forecasters' weighted mean error."""
        errors = self._state[:MODELS, columns]
        usable = np.ones(errors.shape, np.bool_)
        usable[RHYTHM] = self._state[PERIOD, columns] > 0
        weights = _weights(errors, usable)
        return np.asarray((weights * errors).sum(axis=0) / weights.sum(axis=0))

    def issue(self, ts_ms: int, holt: Holt, season: Season | None) -> None:
        """Keep what is forecast now for when its moment comes."""
        forecasts, expected = self._forecasts(ts_ms, holt, season, ALL)
        kept = self._kept[self._turn]
        kept[:MODELS], kept[-2] = forecasts, self._blend(forecasts, ALL)
        kept[-1] = self._error(expected, ALL)
        kept[:, ~holt.known(ts_ms)] = np.nan
        self._due[self._turn] = ts_ms + int(self._horizon_s * 1000)
        self._turn = (self._turn + 1) % self._slots
        self.issue_ms = ts_ms + self._every_ms
        self._plan()

    def _plan(self) -> None:
        """Work out when the next forecast is to be checked."""
        self.next_ms = min([due_ms for due_ms in self._due if due_ms >= 0], default=NEVER_MS)

    def forecast(
        self, ts_ms: int, holt: Holt, season: Season | None, columns: Ints
    ) -> tuple[Floats, Floats, Floats]:
        """Value, 5 % and 95 % point of ``columns``; NaN for a series that is not known well enough."""
        forecasts, expected = self._forecasts(ts_ms, holt, season, columns)
        value, error = self._blend(forecasts, columns), self._error(expected, columns)
        value[~holt.known(ts_ms)[columns]] = np.nan
        return value, value - self._state[BELOW, columns] * error, value + self._state[ABOVE, columns] * error

    def _forecasts(
        self, ts_ms: int, holt: Holt, season: Season | None, columns: Columns
    ) -> tuple[Floats, Floats]:
        """What each forecaster expects of ``columns``, NaN for one that knows nothing; and Holt's error."""
        simple, expected = holt.forecasts(ts_ms, self._horizon_s, columns)
        forecasts = np.full((MODELS, simple.shape[1]), np.nan)
        forecasts[:FORECASTERS] = simple
        if season is not None:
            rhythmic = np.full((SEASONS, self._state.shape[1]), np.nan)
            rhythmic[:, season.columns] = season.ahead(self._horizon_s)
            forecasts[RHYTHM] = rhythmic[:, columns]
        return forecasts, expected

    def _blend(self, forecasts: Floats, columns: Columns) -> Floats:
        """The forecasters' mean, each weighed by the inverse fourth power of its error."""
        usable = forecasts == forecasts
        # The slope of a few values reaches anywhere; until it was tried, nothing is drawn from it.
        usable[LINE] &= self._state[COUNT, columns] > 0
        weights = _weights(self._state[:MODELS, columns], usable)
        total = (weights * np.where(usable, forecasts, 0.0)).sum(axis=0)
        return np.asarray(total / weights.sum(axis=0))

    def _error(self, expected: Floats, columns: Columns) -> Floats:
        """Standard error: ``expected`` counts as ``PRIOR`` errors beside those that were measured, of which
        those that overlap in time count as one. Of a rhythm, the forecasters' errors are expected."""
        state = self._state[:, columns]
        count = state[COUNT] / np.sqrt(self._slots)
        rhythmic = state[PERIOD] > 0
        if rhythmic.any():
            expected = np.where(rhythmic, NORMAL_ERROR * self._expected(columns), expected)
        squared = (PRIOR * expected**2 + count * state[SQUARED]) / (PRIOR + count)
        return np.asarray(np.sqrt(squared))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "due": list(self._due), "turn": self._turn, "issue_ms": self.issue_ms,
            "state": pack(self._state), "kept": pack(self._kept),
        }  # fmt: skip

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same number of columns."""
        self._state = unpack(plain["state"], "f8", self._state.shape)
        if plain["kept"] is None:
            return
        self._due, self._turn, self.issue_ms = list(plain["due"]), plain["turn"], plain["issue_ms"]
        self._kept = unpack(plain["kept"], "f4", self._kept.shape)
        self._plan()


def migrated_horizon(plain: dict[str, Any], n: int) -> dict[str, Any]:
    """A snapshot from before rhythms were known: what was learned of errors stays."""
    old = unpack(plain["state"], "f8", (FORECASTERS + 4, n))
    state = np.zeros((ROWS, n))
    state[:FORECASTERS], state[SQUARED:PERIOD] = old[:FORECASTERS], old[FORECASTERS:]
    return {"state": pack(state), "kept": None}


def _weights(errors: Floats, usable: Bools) -> Floats:
    """Inverse fourth powers of the errors, 0 where not ``usable``; one per column is, at least."""
    most = np.where(usable, errors, 0.0).max(axis=0)
    weights = np.where(most > 0, np.maximum(errors, LEAST * most), 1.0)
    weights[~usable] = np.inf
    weights /= weights.min(axis=0)
    weights *= weights
    weights *= weights
    weights *= weights
    return np.asarray(np.reciprocal(weights))
