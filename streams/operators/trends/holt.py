"""Holt's linear smoothing in columns, the slow mean, and what they expect next.

Source: C. C. Holt 1957, in the error form of Hyndman and Athanasopoulos, "Forecasting: Principles and
Practice", 8.1-8.2 (damped: E. S. Gardner and E. McKenzie 1985). Initial values as in River.
"""

import numpy as np

from streams.operators.columns.arrays import Bools, Floats, Ints, remap

INTERVAL_MS = 1000
"""The nominal time between ticks, to which the gains belong."""
ALPHA, BETA = 0.3, 0.05
"""Holt's gains of level and slope for one ``INTERVAL_MS``; other gaps have gains of their own."""
DAMP_S = 30.0
"""Time constant of the damping: a slope is followed for about so long into the future."""
RESET_MS = 120_000
"""A series that was not seen for longer begins anew."""
ROWS = 7
LEVEL, SLOPE, NEWEST, MEAN, VARIANCE, SEEN_MS, COUNT = range(ROWS)
LEARNT = slice(LEVEL, SEEN_MS)
AVERAGED = slice(MEAN, SEEN_MS)
"""The slow mean of the values and their variance about it."""
BEGUN = 2
"""Values after which a series has a level and a slope."""
FORECASTERS = 3
"""Persistence, the damped line, and the slow mean."""
MEAN_S = 180.0
"""Time constant of the slow mean."""


class Gains:
    """Holt's gains for a step of ``dt_ms`` (one number, or one per column), from those of one interval."""

    def __init__(self, dt_ms: float | Floats) -> None:
        steps = dt_ms / INTERVAL_MS
        self.dt_s = dt_ms / 1000
        self.level = 1 - (1 - ALPHA) ** steps
        self.slope = (1 - (1 - BETA) ** steps) * self.level / self.dt_s
        self.mean = 1 - np.exp(-self.dt_s / MEAN_S)


class Holt:
    """Level, slope and slow mean of n series, in the rows of ``state``, shape (ROWS, n)."""

    def __init__(self, n: int) -> None:
        self._gains = Gains(INTERVAL_MS)
        self._dt_ms = 0
        self._adopt(np.zeros((ROWS, n)), -1)

    def _adopt(self, state: Floats, last_ms: int) -> None:
        self.state = state
        self.n: int = state.shape[1]
        self._next = np.zeros_like(state)
        self._target = np.empty((2, self.n))
        self._predicted, self._error = np.empty(self.n), np.empty(self.n)
        self._set_steady(last_ms)

    def _set_steady(self, last_ms: int) -> None:
        """Mark the columns that were seen at the last tick and have a slope already."""
        self._steady = (self.state[SEEN_MS] == last_ms) & (self.state[COUNT] >= BEGUN)
        self._all_steady = bool(self._steady.all())

    def resize(self, keep: Ints, last_ms: int) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._adopt(remap(self.state, keep, 0.0), last_ms)

    def restore(self, state: Floats, last_ms: int) -> None:
        """Go on from the ``state`` of as many columns, last fed at ``last_ms``."""
        self._adopt(state, last_ms)

    def known(self, now_ms: int) -> Bools:
        """Which columns can be forecast: seen twice, and not too long ago. Shape (n,)."""
        fresh = self.state[SEEN_MS] >= now_ms - RESET_MS
        return np.asarray(fresh & (self.state[COUNT] >= BEGUN))

    def update(self, ts_ms: int, last_ms: int, values: Floats, present: Bools | None) -> None:
        """Take one tick; ``present`` None is all. Columns that were there at the last tick too are quick."""
        dt_ms = ts_ms - last_ms
        soon = dt_ms <= RESET_MS
        if present is None and self._all_steady and soon:
            self._step(dt_ms, values)
            self.state, self._next = self._next, self.state
            self.state[SEEN_MS], self.state[COUNT] = ts_ms, BEGUN
            return
        present = np.ones(self.n, np.bool_) if present is None else present
        regular = present & self._steady & soon
        if regular.any():
            self._step(dt_ms, values)
            np.copyto(self.state[LEARNT], self._next[LEARNT], where=regular)
        others = np.flatnonzero(present & ~regular)
        if others.size:
            self._step_irregular(ts_ms, values, others)
        self.state[SEEN_MS, present] = ts_ms
        self._set_steady(ts_ms)

    def _step(self, dt_ms: int, values: Floats) -> None:
        """Work out the next rows of all columns, as if all were regular."""
        if dt_ms != self._dt_ms:
            self._dt_ms, self._gains = dt_ms, Gains(dt_ms)
        gains, old, new = self._gains, self.state, self._next
        target, predicted = self._target, self._predicted
        np.multiply(old[SLOPE], gains.dt_s, out=predicted)
        predicted += old[LEVEL]
        error, off = self._error, target[1]
        np.subtract(values, predicted, out=error)
        np.multiply(error, gains.level, out=new[LEVEL])
        new[LEVEL] += predicted
        np.multiply(error, gains.slope, out=new[SLOPE])
        new[SLOPE] += old[SLOPE]
        new[NEWEST] = target[0] = values
        np.subtract(values, old[MEAN], out=off)
        off *= off
        target -= old[AVERAGED]
        target *= gains.mean
        np.add(target, old[AVERAGED], out=new[AVERAGED])

    def _step_irregular(self, ts_ms: int, values: Floats, columns: Ints) -> None:
        """Columns that begin, or come back after a gap."""
        state, value = self.state[:, columns], values[columns]
        age_ms = ts_ms - state[SEEN_MS]
        begins = (state[COUNT] == 0) | (age_ms > RESET_MS)
        second, goes_on = ~begins & (state[COUNT] == 1), ~begins & (state[COUNT] >= BEGUN)
        state[:, goes_on] = self._continued(state[:, goes_on], value[goes_on], age_ms[goes_on])
        first = state[LEVEL, second]
        state[SLOPE, second] = (value[second] - first) / age_ms[second] * 1000
        state[LEVEL, second] = (value[second] + first) / 2
        state[:, begins] = 0.0
        state[LEVEL, begins] = state[MEAN, begins] = value[begins]
        state[NEWEST] = value
        state[COUNT] = np.minimum(state[COUNT] + 1, BEGUN)
        self.state[:, columns] = state

    def _continued(self, old: Floats, value: Floats, age_ms: Floats) -> Floats:
        gains = Gains(age_ms)
        predicted = old[LEVEL] + old[SLOPE] * gains.dt_s
        error = value - predicted
        old[LEVEL] = predicted + gains.level * error
        old[SLOPE] += gains.slope * error
        old[VARIANCE] += gains.mean * ((value - old[MEAN]) ** 2 - old[VARIANCE])
        old[MEAN] += gains.mean * (value - old[MEAN])
        return old

    def unseen_s(self, now_ms: int) -> Floats:
        """For how long each column was not seen, shape (n,)."""
        return np.asarray((now_ms - self.state[SEEN_MS]) / 1000)

    def forecasts(self, now_ms: int, horizons_s: Floats) -> Floats:
        """What each forecaster expects so long after ``now_ms``, shape (horizons, FORECASTERS, n)."""
        state = self.state
        ahead_s = horizons_s[:, np.newaxis] + self.unseen_s(now_ms)
        expected = np.empty((horizons_s.size, FORECASTERS, self.n))
        expected[:, 0], expected[:, 2] = state[NEWEST], state[MEAN]
        followed_s = DAMP_S * (1 - np.exp(-ahead_s / DAMP_S))
        np.multiply(state[SLOPE], followed_s, out=expected[:, 1])
        expected[:, 1] += state[LEVEL]
        return expected
