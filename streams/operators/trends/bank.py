"""Level, slope and forecast of many series at once, learned tick by tick.

``TrendBank`` holds one column per series and does for all of them together what
``river.time_series.HoltWinters(alpha, beta)`` does for one: on regular ticks level and slope are the same.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streams.compiled import entry
from streams.operators.columns.arrays import Bools, Floats, Ints, check_version, pack, unpack
from streams.operators.trends.exhaustion import ExhaustionDetector
from streams.operators.trends.holt import LEVEL, SLOPE, VARIANCE, Holt
from streams.operators.trends.horizon import Horizons
from streams.operators.trends.recent import RecentMeans
from streams.operators.trends.season import Season

SNAPSHOT_VERSION = 1
HORIZONS_S = (10.0, 30.0, 300.0)
"""How far ahead forecasts reach, ascending."""
TOO_LARGE = 1e30
"""No real measurement is this large, and its square still fits: larger values count as absent."""


@entry("float64[::1](float64[::1])")
def _measured(values: Floats) -> Floats:
    """``values``, NaN for those that are too large."""
    return np.where(np.abs(values) < TOO_LARGE, values, np.nan)


@dataclass(frozen=True, slots=True)
class TrendForecast:
    """The trends of k series at one moment. NaN is absent.

    ``level`` (unit of the metric), ``slope_per_s`` (that per second) and ``exhausts_in_s`` have shape (k,);
    ``value`` and the 5 % and 95 % points ``p05`` and ``p95`` have shape (horizons, k), in the order of
    ``horizons_s``. ``exhausts_in_s`` is NaN for a series that is not running into its capacity.
    """

    horizons_s: tuple[float, ...]
    level: Floats
    slope_per_s: Floats
    value: Floats
    p05: Floats
    p95: Floats
    exhausts_in_s: Floats

    @property
    def known(self) -> Bools:
        """Which forecasts there are, shape (horizons, k): those that the history of the series bears."""
        return np.asarray(np.isfinite(self.value) & np.isfinite(self.p05) & np.isfinite(self.p95))

    def pick(self, rows: Ints) -> "TrendForecast":
        """The same of some of the series."""
        return TrendForecast(
            horizons_s=self.horizons_s,
            level=self.level[rows],
            slope_per_s=self.slope_per_s[rows],
            value=self.value[:, rows],
            p05=self.p05[:, rows],
            p95=self.p95[:, rows],
            exhausts_in_s=self.exhausts_in_s[rows],
        )


class TrendBank:
    """The trends of n series.

    ``update`` takes every tick. ``forecast`` is asked every ten seconds or so.

    >>> bank = TrendBank(1)
    >>> for second in range(600):
    ...     bank.update(1000 * second, np.array([20.0 + 0.5 * second]))
    >>> said = bank.forecast()
    >>> said.level.round(1), said.slope_per_s.round(2)
    (array([319.5]), array([0.5]))
    """

    def __init__(self, n: int = 0, horizons_s: tuple[float, ...] = HORIZONS_S) -> None:
        self._horizons_s = horizons_s
        self._last_ms = -1
        self._holt = Holt(n)
        self._exhaustion = ExhaustionDetector(n)
        self._horizons = Horizons(horizons_s, n)
        self._recent = RecentMeans(n)

    @property
    def n(self) -> int:
        """How many columns there are."""
        return self._holt.n

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns: column j goes on from old column ``keep[j]``, -1 is a new series."""
        self._holt.resize(keep)
        self._exhaustion.resize(keep)
        self._horizons.resize(keep)
        self._recent.resize(keep)

    def update(self, ts_ms: int, values: Floats) -> None:
        """Take the tick at ``ts_ms``; ``values`` has shape (n,), NaN is absent.

        Raises ``ValueError`` for another shape, and for a tick that is not later than the last.
        """
        if values.shape != (self.n,):
            raise ValueError(f"values have shape {values.shape}, the bank has {self.n} columns: resize first")
        if ts_ms <= self._last_ms:
            raise ValueError(f"tick at {ts_ms} ms is not later than {self._last_ms} ms")
        values = _measured(np.ascontiguousarray(values, np.float64))
        if self._horizons.is_due(ts_ms):
            self._horizons.check(ts_ms, values)
        self._holt.update(ts_ms, values)
        self._recent.update(ts_ms, self._last_ms, values, self._holt.state[SLOPE])
        self._last_ms = ts_ms
        self._exhaustion.update(ts_ms, values)

    def forecast(
        self,
        season: Season | None = None,
        *,
        lower: Floats | None = None,
        upper: Floats | None = None,
        capacity: Floats | None = None,
    ) -> TrendForecast:
        """The trends of all columns as of the last tick, with the cycles of ``season``, which include it. To
        be asked every ten seconds or so: the forecasts are kept until their moments come, and
        what is said to run out counts as announced.

        ``lower``, ``upper`` and ``capacity`` have shape (n,) and the metric's unit; NaN is no bound. Level
        and forecasts are clipped to the bounds; without ``capacity`` nothing is said to run out. A series
        that was seen fewer than two times, or not for two minutes, has NaN everywhere.
        """
        now_ms, holt, nothing = self._last_ms, self._holt, np.full(self.n, np.nan)
        full = nothing if capacity is None else capacity
        left_s = self._exhaustion.exhausts_in_s(full, now_ms, self._recent.means)
        line = self._recent.line(now_ms).towards(holt.state[LEVEL], full, left_s)
        self._horizons.follow(season)
        value, error = self._horizons.forecast(now_ms, holt, line, self._recent.age_s(), season)
        p05, p95 = self._horizons.interval(value, error)
        # No record says two things: the way to the announced end lies within the interval.
        ends = np.where(line.announced, line.at(np.array(self._horizons_s)), np.nan)
        p05, p95 = np.where(ends < p05, ends, p05), np.where(ends > p95, ends, p95)
        slope = np.where(line.announced, line.slope_per_s, self._recent.trend(np.sqrt(holt.state[VARIANCE])))
        known = holt.known(now_ms)
        bounds = (nothing if lower is None else lower, nothing if upper is None else upper)
        return TrendForecast(
            horizons_s=self._horizons_s,
            level=np.where(known, _within(holt.state[LEVEL:SLOPE], *bounds)[0], np.nan),
            slope_per_s=np.where(known, slope, np.nan),
            value=_within(value, *bounds),
            p05=_within(p05, *bounds),
            p95=_within(p95, *bounds),
            exhausts_in_s=left_s,
        )

    def snapshot(self) -> dict[str, Any]:
        """Plain data from which ``restore`` goes on bit for bit."""
        return {
            "v": SNAPSHOT_VERSION,
            "n": self.n,
            "last_ms": self._last_ms,
            "holt": pack(self._holt.state),
            "exhaustion": self._exhaustion.snapshot(),
            "recent": self._recent.snapshot(),
            "horizons": self._horizons.snapshot(),
        }

    @classmethod
    def restore(cls, plain: dict[str, Any]) -> "TrendBank":
        """The bank that wrote ``plain``. Raises ``ValueError`` for one of another version or shape."""
        check_version(plain, SNAPSHOT_VERSION, "trends")
        bank = cls(plain["n"])
        bank._last_ms = plain["last_ms"]
        bank._holt.state = unpack(plain["holt"], "f8", bank._holt.state.shape)
        bank._exhaustion.restore(plain["exhaustion"])
        bank._recent.restore(plain["recent"])
        bank._horizons.restore(plain["horizons"])
        return bank


@entry("float64[:, ::1](float64[:, ::1], float64[::1], float64[::1])")
def _within(values: Floats, lower: Floats, upper: Floats) -> Floats:
    """``values`` clipped to the bounds; a NaN bound does not bind, a NaN value stays NaN."""
    within = values.copy()
    for row in within:
        for column in range(row.size):
            if row[column] < lower[column]:
                row[column] = lower[column]
            if row[column] > upper[column]:
                row[column] = upper[column]
    return within
