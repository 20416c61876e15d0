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
KEPT = FORECASTERS + 2
"""Rows of a kept forecast: each forecaster's, the blend, and its standard error."""
MISS, STEP = 0.05, 0.2
NORMAL = 1.645
FADING = 0.05
PRIOR = 2.0
POWER = -4


class Horizon:
    """Forecasts ``horizon_s`` ahead for n series, and their errors so far."""

    def __init__(self, horizon_s: float, n: int) -> None:
        self._horizon_s = horizon_s
        self._slots = min(5, max(1, int(horizon_s // 10)))
        self._every_ms = int(horizon_s * 1000) // self._slots
        self._due: list[int] = [-1] * self._slots
        self._turn = 0
        self.next_ms = 0
        self._state = np.zeros((ROWS, n))
        self._state[[BELOW, ABOVE]] = NORMAL
        self._kept = np.full((self._slots, KEPT, n), np.nan, np.float32)

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._state = remap(self._state, keep, 0.0)
        self._state[BELOW:, keep < 0] = NORMAL
        self._kept = remap(self._kept, keep, np.nan)

    def check(self, ts_ms: int, interval_ms: int, values: Floats, present: Bools) -> None:
        """Hold the forecast that was made for now against ``values``; one that is long past is forgotten."""
        due_ms = self._due[self._turn]
        if due_ms >= 0 and ts_ms - due_ms <= max(2 * interval_ms, self._every_ms // 4):
            kept = self._kept[self._turn]
            columns = np.flatnonzero(present & np.isfinite(kept[0]))
            self._learn(kept[:, columns].astype(np.float64), values[columns], columns)

    def _learn(self, kept: Floats, values: Floats, columns: Ints) -> None:
        state = self._state[:, columns]
        errors = values - kept[:-1]
        state[COUNT] += 1
        weight = np.maximum(1 / state[COUNT], FADING)
        state[:FORECASTERS] += weight * (np.abs(errors[:-1]) - state[:FORECASTERS])
        state[SQUARED] += weight * (errors[-1] ** 2 - state[SQUARED])
        for row, error in ((BELOW, -errors[-1]), (ABOVE, errors[-1])):
            missed = error > state[row] * kept[-1]
            state[row] = np.maximum(state[row] + STEP * (missed - MISS), 0.0)
        self._state[:, columns] = state

    def issue(self, ts_ms: int, holt: Holt) -> None:
        """Keep what is forecast now for when its moment comes."""
        everything = slice(None)
        forecasts = holt.forecasts(ts_ms, self._horizon_s, everything)
        kept = self._kept[self._turn]
        kept[:-2], kept[-2] = forecasts, self._blend(forecasts, everything)
        kept[-1] = self._error(holt.expected_error(ts_ms, self._horizon_s, everything), everything)
        kept[:, ~holt.known(ts_ms)] = np.nan
        self._due[self._turn] = ts_ms + int(self._horizon_s * 1000)
        self._turn = (self._turn + 1) % self._slots
        self.next_ms = ts_ms + self._every_ms

    def forecast(self, ts_ms: int, holt: Holt, columns: Ints) -> tuple[Floats, Floats, Floats]:
        """Value, 5 % and 95 % point of ``columns``; NaN for a series that is not known well enough."""
        value = self._blend(holt.forecasts(ts_ms, self._horizon_s, columns), columns)
        value[~holt.known(ts_ms)[columns]] = np.nan
        error = self._error(holt.expected_error(ts_ms, self._horizon_s, columns), columns)
        return value, value - self._state[BELOW, columns] * error, value + self._state[ABOVE, columns] * error

    def _blend(self, forecasts: Floats, columns: Ints | slice) -> Floats:
        """The forecasters' mean, each weighed by its error to the power of ``POWER``."""
        errors = self._state[:FORECASTERS, columns]
        least = errors.min(axis=0)
        weights = (np.where(least > 0, errors / np.where(least > 0, least, 1), 1 + (errors > 0) * 9)) ** POWER
        return np.asarray((weights * forecasts).sum(axis=0) / weights.sum(axis=0))

    def _error(self, expected: Floats, columns: Ints | slice) -> Floats:
        """Standard error: ``expected`` counts as ``PRIOR`` errors beside those that were measured."""
        count = np.minimum(self._state[COUNT, columns], 1 / FADING)
        squared = (PRIOR * expected**2 + count * self._state[SQUARED, columns]) / (PRIOR + count)
        return np.asarray(np.sqrt(squared))

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "due": self._due, "turn": self._turn, "next_ms": self.next_ms,
            "state": pack(self._state), "kept": pack(self._kept),
        }  # fmt: skip

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same number of columns."""
        self._due, self._turn, self.next_ms = list(plain["due"]), plain["turn"], plain["next_ms"]
        self._state = unpack(plain["state"], "f8", self._state.shape)
        self._kept = unpack(plain["kept"], "f4", self._kept.shape)
