"""What a trend evaluation gives: level, slope and forecasts of several series at once."""

from dataclasses import dataclass

import numpy as np

from streams.operators.columns.arrays import Floats, Ints


@dataclass(frozen=True, slots=True)
class TrendPoint:
    """The trend of one series. ``steps`` holds (horizon_s, value, p05, p95), nearest first.

    ``exhausts_in_s`` is None unless the series is running into its capacity.
    """

    level: float
    slope_per_s: float
    steps: tuple[tuple[float, float, float, float], ...]
    exhausts_in_s: float | None


@dataclass(frozen=True, slots=True)
class TrendForecast:
    """The trends of the k columns that were asked for. NaN is absent.

    ``level``, ``slope_per_s`` (units of the metric, per second) and ``exhausts_in_s`` have shape (k,);
    ``value``, ``p05`` and ``p95`` have shape (horizons, k), in the order of ``horizons_s``.
    """

    horizons_s: tuple[float, ...]
    level: Floats
    slope_per_s: Floats
    value: Floats
    p05: Floats
    p95: Floats
    exhausts_in_s: Floats

    def pick(self, rows: Ints) -> "TrendForecast":
        """The same of some of the columns."""
        return TrendForecast(
            horizons_s=self.horizons_s,
            level=self.level[rows],
            slope_per_s=self.slope_per_s[rows],
            value=self.value[:, rows],
            p05=self.p05[:, rows],
            p95=self.p95[:, rows],
            exhausts_in_s=self.exhausts_in_s[rows],
        )

    def of(self, row: int) -> TrendPoint | None:
        """The ``row``-th of the columns that were asked for; None for one without a forecast yet."""
        if not np.isfinite(self.level[row]):
            return None
        exhausts = float(self.exhausts_in_s[row])
        figures = zip(
            self.horizons_s,
            self.value[:, row].tolist(),
            self.p05[:, row].tolist(),
            self.p95[:, row].tolist(),
            strict=True,
        )
        return TrendPoint(
            level=float(self.level[row]),
            slope_per_s=float(self.slope_per_s[row]),
            steps=tuple(figures),
            exhausts_in_s=None if np.isnan(exhausts) else exhausts,
        )
