"""One forecast horizon: several simple forecasters, weighed by how wrong each was there lately.

A forecast is kept until its moment comes and is then held against what was measured. So the interval is
that of errors really made at this horizon, and needs no model of how errors grow. The weights are those
of J. M. Bates and C. W. J. Granger 1969 with a higher power; the 5 % and 95 % points follow the share of
misses (adaptive conformal inference, I. Gibbs and E. Candès 2021).
"""

from typing import Any

import numpy as np

from streams.operators.bank_state import Bools, Floats, Ints, pack, remap, unpack
from streams.operators.trend_holt import FORECASTERS, Holt

ROWS = FORECASTERS + 4
SQUARED, COUNT, BELOW, ABOVE = range(FORECASTERS, ROWS)
"""Rows after the forecasters' mean absolute errors: the mean squared error of their blend, the number of
errors seen, and how many standard errors the 5 % and 95 % points lie away."""
POINTS = slice(BELOW, ROWS)
KEPT = FORECASTERS + 2
"""Rows of a kept forecast: each forecaster's, the blend, and its standard error."""
MISS, STEP = 0.05, 0.2
NORMAL = 1.645
"""Standard errors to the 95 % point of a normal distribution: where the points begin."""
FADING = 0.05
PRIOR = 2.0
SLOTS = 5
EVERY_S = 20.0
"""A forecast is kept no more often than this."""
LEAST = 1e-6
"""Share of the largest error below which an error makes no further difference."""

Columns = Ints | slice
ALL = slice(None)


class Horizon:
    """Forecasts ``horizon_s`` ahead for n series, and their errors so far.

    From ``next_ms`` on a forecast is to be checked, from ``issue_ms`` on the next one is to be made.
    """

    def __init__(self, horizon_s: float, n: int) -> None:
        self._horizon_s = horizon_s
        self._slots = max(1, min(SLOTS, int(horizon_s / EVERY_S)))
        self._every_ms = int(max(horizon_s / self._slots, EVERY_S) * 1000)
        self._due: list[int] = [-1] * self._slots
        self._turn = 0
        self.next_ms = self.issue_ms = 0
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
        due_ms, self._due[self._turn] = self._due[self._turn], -1
        self.next_ms = self.issue_ms
        if due_ms < 0 or ts_ms - due_ms > max(2 * interval_ms, self._every_ms // 4):
            return
        kept = self._kept[self._turn].astype(np.float64)
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
        state[:COUNT] += error
        reach = state[POINTS] * kept[-1]
        missed = np.array((-last > reach[0], last > reach[1]))
        state[POINTS] += STEP * (missed - MISS)
        np.maximum(state[POINTS], 0.0, out=state[POINTS])

    def issue(self, ts_ms: int, holt: Holt) -> None:
        """Keep what is forecast now for when its moment comes."""
        forecasts, expected = holt.forecasts(ts_ms, self._horizon_s, ALL)
        kept = self._kept[self._turn]
        kept[:-2], kept[-2] = forecasts, self._blend(forecasts, ALL)
        kept[-1] = self._error(expected, ALL)
        kept[:, ~holt.known(ts_ms)] = np.nan
        self._due[self._turn] = ts_ms + int(self._horizon_s * 1000)
        self._turn = (self._turn + 1) % self._slots
        self.issue_ms = ts_ms + self._every_ms
        oldest_ms = self._due[self._turn]
        self.next_ms = self.issue_ms if oldest_ms < 0 else min(oldest_ms, self.issue_ms)

    def forecast(self, ts_ms: int, holt: Holt, columns: Ints) -> tuple[Floats, Floats, Floats]:
        """Value, 5 % and 95 % point of ``columns``; NaN for a series that is not known well enough."""
        forecasts, expected = holt.forecasts(ts_ms, self._horizon_s, columns)
        value, error = self._blend(forecasts, columns), self._error(expected, columns)
        value[~holt.known(ts_ms)[columns]] = np.nan
        return value, value - self._state[BELOW, columns] * error, value + self._state[ABOVE, columns] * error

    def _blend(self, forecasts: Floats, columns: Columns) -> Floats:
        """The forecasters' mean, each weighed by the inverse fourth power of its error."""
        errors = self._state[:FORECASTERS, columns]
        most = errors.max(axis=0)
        weights = np.where(most > 0, np.maximum(errors, LEAST * most), 1.0)
        weights /= weights.min(axis=0)
        weights *= weights
        weights *= weights
        np.reciprocal(weights, out=weights)
        return np.asarray((weights * forecasts).sum(axis=0) / weights.sum(axis=0))

    def _error(self, expected: Floats, columns: Columns) -> Floats:
        """Standard error: ``expected`` counts as ``PRIOR`` errors beside those that were measured."""
        state = self._state[:, columns]
        count = np.minimum(state[COUNT], 1 / FADING)
        squared = (PRIOR * expected**2 + count * state[SQUARED]) / (PRIOR + count)
        return np.asarray(np.sqrt(squared))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "due": list(self._due), "turn": self._turn, "next_ms": self.next_ms, "issue_ms": self.issue_ms,
            "state": pack(self._state), "kept": pack(self._kept),
        }  # fmt: skip

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same number of columns."""
        self._due, self._turn = list(plain["due"]), plain["turn"]
        self.next_ms, self.issue_ms = plain["next_ms"], plain["issue_ms"]
        self._state = unpack(plain["state"], "f8", self._state.shape)
        self._kept = unpack(plain["kept"], "f4", self._kept.shape)
