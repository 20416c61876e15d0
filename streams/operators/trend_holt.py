"""Holt's linear smoothing in columns, with its one-step error and what it expects next.

Source: C. C. Holt 1957, in the error form of Hyndman and Athanasopoulos, "Forecasting: Principles and
Practice", 8.1-8.2 (damped: E. S. Gardner and E. McKenzie 1985). Initial values as in River.
"""

import numpy as np

from streams.operators.bank_state import Bools, Floats, Ints, remap
from streams.operators.trend_config import TrendConfig

ROWS = 8
LEVEL, SLOPE, NEWEST, MEAN, ERROR, ERROR_SQUARED, SEEN_MS, COUNT = range(ROWS)
FORECASTERS = 3
"""Persistence, the damped line, and the slow mean."""
MEAN_S = 180.0
"""Time constant of the slow mean."""


class Gains:
    """Holt's gains for a step of ``dt_ms`` (one number, or one per column), from those of one interval.

    ``spread`` is the variance of a forecast over the step in units of the one-interval error variance.
    """

    def __init__(self, config: TrendConfig, dt_ms: float | Floats) -> None:
        steps = dt_ms / config.interval_ms
        self.dt_s = dt_ms / 1000
        self.level = 1 - (1 - config.alpha) ** steps
        self.slope = (1 - (1 - config.beta) ** steps) * self.level / self.dt_s
        self.mean = 1 - (1 - config.interval_ms / 1000 / MEAN_S) ** steps
        self.spread = spread(config, self.dt_s)


def spread(config: TrendConfig, ahead_s: float | Floats) -> float | Floats:
    """Variance of Holt's forecast ``ahead_s`` ahead over that of one interval ahead; at least 1.

    Hyndman and Athanasopoulos, table 8.8 (A,Ad,N), with the damped sum of slopes taken at its end value.
    """
    steps = np.maximum(ahead_s * 1000 / config.interval_ms, 1.0)
    followed = np.minimum(steps, config.damp_s * 1000 / config.interval_ms)
    return 1 + (steps - 1) * (config.alpha * (1 + config.beta * followed)) ** 2


class Holt:
    """Level, slope and error of n series, in the rows of ``state``, shape (ROWS, n)."""

    def __init__(self, config: TrendConfig, n: int) -> None:
        self._config = config
        self._gains = Gains(config, config.interval_ms)
        self._regular_ms = config.interval_ms
        self._adopt(np.zeros((ROWS, n)), np.zeros(n, np.bool_))

    def _adopt(self, state: Floats, steady: Bools) -> None:
        """``steady`` marks the columns that were seen at the last tick and have an error already."""
        self.state, self._steady = state, steady
        self.n: int = state.shape[1]
        self.level, self.slope, self.newest, self.mean = (
            state[LEVEL],
            state[SLOPE],
            state[NEWEST],
            state[MEAN],
        )
        self._errors = state[ERROR : ERROR_SQUARED + 1]
        self._new_errors = np.empty((2, self.n))
        self._scratch = np.empty(self.n)

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._adopt(remap(self.state, keep, 0.0), remap(self._steady, keep, False))

    def settle(self, last_ms: int) -> None:
        """Work out from ``state`` what follows from it, after it was restored."""
        self._steady = (self.state[SEEN_MS] == last_ms) & (self.state[COUNT] >= 3)

    def known(self, now_ms: int) -> Bools:
        """Which columns can be forecast: seen twice, and not too long ago. Shape (n,)."""
        fresh = now_ms - self.state[SEEN_MS] <= self._config.reset_ms
        return np.asarray(fresh & (self.state[COUNT] >= 2))

    def update(self, ts_ms: int, last_ms: int, values: Floats, present: Bools) -> None:
        """Take one tick. Columns that were there at the last tick too take the quick way."""
        regular = present & self._steady
        dt_ms = ts_ms - last_ms
        if dt_ms > self._config.reset_ms:
            regular[:] = False
        if regular.any():
            self._step(dt_ms, values, regular)
        others = present & ~regular
        if others.any():
            self._step_irregular(ts_ms, values, np.flatnonzero(others))
        np.copyto(self.state[SEEN_MS], ts_ms, where=present)
        self._steady = present & (self.state[COUNT] >= 3)

    def _step(self, dt_ms: int, values: Floats, where: Bools) -> None:
        if dt_ms != self._regular_ms:
            self._regular_ms, self._gains = dt_ms, Gains(self._config, dt_ms)
        gains, new, scratch = self._gains, self._new_errors, self._scratch
        error = new[0]
        np.multiply(self.slope, gains.dt_s, out=scratch)
        scratch += self.level
        np.subtract(values, scratch, out=error)
        np.copyto(self.level, scratch + gains.level * error, where=where)
        np.add(self.slope, gains.slope * error, out=self.slope, where=where)
        np.copyto(self.newest, values, where=where)
        np.subtract(values, self.mean, out=scratch)
        scratch *= gains.mean
        np.add(self.mean, scratch, out=self.mean, where=where)
        if gains.spread != 1.0:
            error /= gains.spread**0.5
        np.multiply(error, error, out=new[1])
        new -= self._errors
        new *= self._config.fading
        np.add(self._errors, new, out=self._errors, where=where)

    def _step_irregular(self, ts_ms: int, values: Floats, columns: Ints) -> None:
        """Columns that begin, or come back after a gap."""
        state = self.state[:, columns]
        age_ms = ts_ms - state[SEEN_MS]
        begins = (state[COUNT] == 0) | (age_ms > self._config.reset_ms)
        state[:, begins] = 0.0
        value, second = values[columns], state[COUNT] == 1
        goes_on = state[COUNT] >= 2
        self._continue(state, value, age_ms, goes_on)
        state[SLOPE, second] = ((value - state[LEVEL]) / age_ms * 1000)[second]
        state[LEVEL, second] = ((value + state[LEVEL]) / 2)[second]
        state[LEVEL, begins] = state[MEAN, begins] = value[begins]
        state[NEWEST] = value
        state[COUNT] += 1
        self.state[:, columns] = state

    def _continue(self, state: Floats, value: Floats, age_ms: Floats, where: Bools) -> None:
        old, gains = state[:, where], Gains(self._config, age_ms[where])
        predicted = old[LEVEL] + old[SLOPE] * gains.dt_s
        error = value[where] - predicted
        old[LEVEL] = predicted + gains.level * error
        old[SLOPE] += gains.slope * error
        old[MEAN] += gains.mean * (value[where] - old[MEAN])
        new = np.array((error, error * error)) / np.array((gains.spread**0.5, gains.spread))
        weight = np.where(old[COUNT] == 2, 1.0, self._config.fading)
        old[ERROR : ERROR_SQUARED + 1] += weight * (new - old[ERROR : ERROR_SQUARED + 1])
        state[:, where] = old

    def forecasts(self, now_ms: int, horizon_s: float, columns: Ints | slice) -> Floats:
        """What each forecaster expects ``horizon_s`` after ``now_ms``; shape (FORECASTERS, columns)."""
        ahead_s = horizon_s + (now_ms - self.state[SEEN_MS, columns]) / 1000
        followed_s = self._config.damp_s * -np.expm1(-ahead_s / self._config.damp_s)
        line = self.level[columns] + self.slope[columns] * followed_s
        return np.array((self.newest[columns], line, self.mean[columns]))

    def expected_error(self, now_ms: int, horizon_s: float, columns: Ints | slice) -> Floats:
        """Standard error of the damped line, from its one-step errors; grows while a series is unseen."""
        ahead_s = horizon_s + (now_ms - self.state[SEEN_MS, columns]) / 1000
        return np.asarray(np.sqrt(self.state[ERROR_SQUARED, columns] * spread(self._config, ahead_s)))
