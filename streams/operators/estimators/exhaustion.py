"""Tells when a series reaches its capacity, as an estimator of River."""

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.estimators.trend import TrendForecaster


class ExhaustionForecaster(TrendForecaster):
    """Says when a series that climbs, such as memory that leaks, reaches its capacity.

    Loading a model or filling a cache climbs as well, and ends. So a climb is announced when it was even for
    660 values, does not bend towards a rest, and would end within 3600; or when it is nearly over.
    The forecasts of an announced climb lead to the capacity, and no forecast lies beyond it.

    Parameters
    ----------
    capacity
        The value at which it is full, above 0.
    window
        As of ``CycleForecaster``.

    Attributes
    ----------
    exhausts_in : float | None
        Steps until it is full; None while it is not running out.

    Examples
    --------
    >>> from streams.operators.estimators.exhaustion import ExhaustionForecaster

    >>> model = ExhaustionForecaster(capacity=80.0)
    >>> for second in range(1200):
    ...     model.learn_one(30 + second / 30 + second % 2 / 10)
    >>> 290 < model.exhausts_in < 310
    True
    >>> ExhaustionForecaster(capacity=80.0).exhausts_in is None
    True

    """

    def __init__(self, capacity: float = 100.0, window: int = 600) -> None:
        if not capacity > 0:
            raise ValueError(f"capacity has to be above 0, not {capacity}")
        super().__init__(window, lower=0.0, upper=capacity)
        self.capacity = capacity

    @property
    def exhausts_in(self) -> float | None:
        """Return the steps until it is full; None while it is not running out."""
        return self._left

    @property
    def _capacity(self) -> Floats:
        return np.array([self.capacity])
