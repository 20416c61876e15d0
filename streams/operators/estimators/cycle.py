"""Makes a cycle an estimator of River: it learns one value after another, and goes on as the last periods
did."""

from typing import Any

import numpy as np
from river import time_series

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.cycles.bank import CycleBank, CycleConfig
from streams.operators.trends.pending import HASHED
from streams.operators.trends.season import Season, season_of

_STEP_MS = 1000
"""A value stands for a tick of one second: what the banks count in seconds are values here."""
LEAST, MORE = 8, 8
"""A cycle is looked for, and a forecast measured, after so many values and fewer than so many more."""
_COLUMN: Ints = np.zeros(1, np.int64)


class CycleForecaster(time_series.base.Forecaster):
    """Finds the cycle of a series, and forecasts it from its newest periods.

    Periods need not be whole. From 2.5 periods on a cycle is found once it is beyond doubt: noise, drift and
    steps have none. Without a cycle the newest value is forecast. Where an edge falls between two values, the
    forecast lies between them. The detector of Dutycycle's streams, one series at a time.

    Parameters
    ----------
    window
        How many of the newest values are looked at, a multiple of 4 from 64 on. Periods of 3 values up to a
        third of it are found.

    Attributes
    ----------
    period : float | None
        The period in values, if there is a cycle now.
    confidence : float | None
        The chance that the period is right, 0-1.

    Examples
    --------
    >>> from streams.operators.estimators.cycle import CycleForecaster

    >>> model = CycleForecaster()
    >>> for second in range(300):
    ...     model.learn_one(90.0 if second % 12.5 < 9 else 10.0)
    >>> round(model.period, 1)
    12.5
    >>> [round(value) for value in model.forecast(horizon=12)]
    [81, 90, 90, 90, 90, 90, 90, 90, 90, 19, 10, 10]

    """

    def __init__(self, window: int = 600) -> None:
        self.window = window
        self._count = 0
        self._newest = 0.0
        self._evaluated_at = LEAST
        self._cycles = CycleBank(1, CycleConfig(interval_ms=_STEP_MS, samples=window))

    @property
    def period(self) -> float | None:
        """Return the period in values; None without a cycle."""
        return self._cycles.current(0).period_s

    @property
    def confidence(self) -> float | None:
        """Return the chance that the period is right; None without a cycle."""
        return self._cycles.current(0).confidence

    @property
    def _now_ms(self) -> int:
        return _STEP_MS * self._count

    def learn_one(self, y: float, x: dict[Any, Any] | None = None) -> None:
        """Take the next value; NaN is a value that is missing. ``x`` is not used."""
        self._count += 1
        value = float(y)
        self._newest = value if np.isfinite(value) else self._newest
        self._learn(np.array([value]))
        if self._count == self._evaluated_at:
            # As if by chance: a forecast that is always made at one phase of a cycle seems to be easy there.
            self._evaluated_at += LEAST + self._count * HASHED % 2**32 * MORE // 2**32
            self._evaluate()

    def _learn(self, values: Floats) -> None:
        self._cycles.update(self._now_ms, values)

    def _evaluate(self) -> None:
        self._cycles.changes(self._now_ms)

    def _season(self) -> Season:
        return season_of(self._cycles.locked(), _COLUMN)

    def forecast(self, horizon: int, xs: list[dict[Any, Any]] | None = None) -> list[float]:
        """Return the value of each of the next ``horizon`` steps. ``xs`` is not used."""
        season = self._season()
        if not season.columns.size:
            return [self._newest] * horizon
        best = int(season.errors(_COLUMN)[:, 0].argmin())
        values: list[float] = season.ahead(np.arange(1.0, horizon + 1))[:, best, 0].tolist()
        return values

    def __getstate__(self) -> dict[str, Any]:
        """Return parameters, and the banks as plain data: small, and exact to the last bit."""
        return {**vars(self), "_cycles": self._cycles.snapshot()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Go on from ``__getstate__``. Raises ``ValueError`` for a state of another version."""
        vars(self).update(state)
        config = CycleConfig(interval_ms=_STEP_MS, samples=self.window)
        self._cycles = CycleBank.restore(state["_cycles"], config)
