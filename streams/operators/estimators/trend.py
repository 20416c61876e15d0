"""Makes level, slope and cycle an estimator of River, whose intervals come from errors really made."""

from typing import Any

import numpy as np
from river.conf import Interval

from streams.operators.columns.arrays import Floats
from streams.operators.estimators.cycle import CycleForecaster
from streams.operators.trends.bank import TrendBank

HORIZONS: tuple[float, ...] = (1.0, 3.0, 10.0, 33.0, 107.0, 300.0)
"""Steps ahead at which errors are measured: no two have many periods in common."""


class TrendForecaster(CycleForecaster):
    """Forecasts a series with its level, its trend and, while it has one, its cycle; with intervals.

    Simple forecasters (the newest value, damped and straight lines, a slow mean, the averages of the newest
    periods) are weighed by their recent errors at each horizon. An interval is made of the errors of
    forecasts whose moment has come, so it needs no model of the noise. The trends of Dutycycle's streams, one
    series at a time.

    Parameters
    ----------
    window
        As of ``CycleForecaster``.
    lower
        No forecast is below this; None: there is no bound.
    upper
        No forecast is above this; None: there is no bound.

    Examples
    --------
    >>> from streams.operators.estimators.trend import TrendForecaster

    >>> model = TrendForecaster(lower=0.0)
    >>> for second in range(600):
    ...     model.learn_one(20 + second / 2 + second % 3)
    >>> [round(value) for value in model.forecast(horizon=3)]
    [320, 322, 323]
    >>> interval = model.forecast_interval(horizon=30)[-1]
    >>> 336.5 in interval, interval.width < 5
    (True, True)

    """

    def __init__(self, window: int = 600, lower: float | None = None, upper: float | None = None) -> None:
        super().__init__(window)
        self.lower = lower
        self.upper = upper
        self._left: float | None = None
        self._trends = TrendBank(1, HORIZONS)

    def _learn(self, values: Floats) -> None:
        super()._learn(values)
        self._trends.update(self._now_ms, values)
        self._left = None if self._left is None else max(self._left - 1, 1.0)

    def _evaluate(self) -> None:
        super()._evaluate()
        forecast = self._trends.forecast(
            self._season(), lower=_bound(self.lower), upper=_bound(self.upper), capacity=self._capacity
        )
        left = float(forecast.exhausts_in_s[0])
        self._left = None if np.isnan(left) else left

    @property
    def _capacity(self) -> Floats | None:
        """Return what the series runs into, shape (1,)."""
        return None

    def _path(self, horizon: int) -> Floats:
        """Return value, 5 % and 95 % point of each step, shape (3, steps); NaN where too little is known."""
        return self._trends.path(
            np.arange(1.0, horizon + 1), self._season(), lower=_bound(self.lower), upper=_bound(self.upper),
            capacity=self._capacity, exhausts_in_s=_bound(self._left),
        )[:, :, 0]  # fmt: skip

    def forecast(self, horizon: int, xs: list[dict[Any, Any]] | None = None) -> list[float]:
        """Return the value of each of the next ``horizon`` steps; the newest where too little is known.
        ``xs`` is not used."""
        values = self._path(horizon)[0]
        forecast: list[float] = np.where(np.isnan(values), self._newest, values).tolist()
        return forecast

    def forecast_interval(self, horizon: int) -> list[Interval | None]:
        """Return of each of the next ``horizon`` steps the interval that nine of ten values lie in; None
        where too few forecasts have been measured, and beyond the last of ``HORIZONS``."""
        value, low, high = self._path(horizon).tolist()
        steps = zip(range(1, horizon + 1), value, low, high, strict=True)
        return [
            None if np.isnan(middle) or step > HORIZONS[-1] else Interval(lower, upper)
            for step, middle, lower, upper in steps
        ]

    def __getstate__(self) -> dict[str, Any]:
        """See ``CycleForecaster``."""
        return {**super().__getstate__(), "_trends": self._trends.snapshot()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """See ``CycleForecaster``."""
        super().__setstate__(state)
        self._trends = TrendBank.restore(state["_trends"], HORIZONS)


def _bound(value: float | None) -> Floats | None:
    return None if value is None else np.array([value])
