"""Forecasts that others would make: of one series, at every moment asked for, some seconds ahead.

A forecaster takes the values one by one and says what it expects at each horizon. Those that need a period
get it from the classic detector (``peers_cycle.fft_acf``), as they have none of their own.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
from river import time_series

from bench.generators import Floats
from bench.generators_trend import HORIZONS_S
from bench.insight.peers_cycle import fft_acf

WINDOW = 600
"""Samples that a period is looked for in."""
AGAIN = 60
"""Samples after which it is looked for again."""
LEVEL, SLOPE, SEASON = 0.3, 0.05, 0.1
"""Gains of Holt and Winters' method; the first two are those that ours uses."""
HoltWinters: Any = time_series.HoltWinters


class Forecaster(Protocol):
    """One series' future."""

    def learn(self, value: float) -> None:
        """Take the next value."""

    def ahead(self) -> Floats:
        """What is expected at each of ``HORIZONS_S``."""


class Persistence:
    """What is now stays."""

    def __init__(self) -> None:
        self._now = 0.0

    def learn(self, value: float) -> None:
        """See ``Forecaster``."""
        self._now = value

    def ahead(self) -> Floats:
        """See ``Forecaster``."""
        return np.full(len(HORIZONS_S), self._now)


class SeasonalNaive:
    """What was one period (or as many as it takes) before, with the period of the newest 600 samples."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._period = 0

    def learn(self, value: float) -> None:
        """See ``Forecaster``."""
        self._values.append(value)
        if len(self._values) >= WINDOW and len(self._values) % AGAIN == 0:
            self._period = period_of(self._values)

    def ahead(self) -> Floats:
        """See ``Forecaster``; without a period, what is now."""
        if not self._period:
            return np.full(len(HORIZONS_S), self._values[-1])
        back = [-1 - (-horizon) % self._period for horizon in HORIZONS_S]
        return np.array([self._values[place] for place in back])


class RiverHolt:
    """River's Holt and Winters, without a season."""

    def __init__(self) -> None:
        self._model = HoltWinters(alpha=LEVEL, beta=SLOPE)

    def learn(self, value: float) -> None:
        """See ``Forecaster``."""
        self._model.learn_one(value)

    def ahead(self) -> Floats:
        """See ``Forecaster``."""
        return picked(self._model)


class SeasonalHolt:
    """The same with the season that the first 600 samples show; without one if they show none."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._model = HoltWinters(alpha=LEVEL, beta=SLOPE)

    def learn(self, value: float) -> None:
        """See ``Forecaster``."""
        self._model.learn_one(value)
        if len(self._values) < WINDOW:
            self._values.append(value)
            if len(self._values) == WINDOW and (period := period_of(self._values)):
                self._model = HoltWinters(alpha=LEVEL, beta=SLOPE, gamma=SEASON, seasonality=period)
                for old in self._values:
                    self._model.learn_one(old)

    def ahead(self) -> Floats:
        """See ``Forecaster``."""
        return picked(self._model)


def picked(model: Any) -> Floats:
    """A model's forecasts at the horizons."""
    path = model.forecast(horizon=HORIZONS_S[-1])
    return np.array([path[horizon - 1] for horizon in HORIZONS_S])


def period_of(values: Sequence[float]) -> int:
    """In samples; 0 for none."""
    newest = np.array(values[-WINDOW:])
    return round(fft_acf(newest) or 0) if np.ptp(newest) > 0 else 0


FORECASTERS: dict[str, type[Forecaster]] = {
    "persistence": Persistence, "seasonal naive": SeasonalNaive, "Holt (River)": RiverHolt,
    "Holt-Winters (River)": SeasonalHolt,
}  # fmt: skip
"""By the name in the tables."""
