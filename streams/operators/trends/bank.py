"""Learns level, slope and forecast of many series at once, tick by tick.

``TrendBank`` holds one column per series and does for all of them together what
``river.time_series.HoltWinters(alpha, beta)`` does for one: on regular ticks level and slope are the same.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from streams.compiled import entry
from streams.operators.columns.arrays import BEFORE_MS, Bools, Floats, Ints, check_version, pack, unpack
from streams.operators.trends.exhaustion import BLOCK_MS as LEVEL_MS
from streams.operators.trends.exhaustion import ExhaustionDetector, close_levels, follow_ticks
from streams.operators.trends.holt import SLOPE, VARIANCE, Holt, is_measured, update_holt
from streams.operators.trends.horizon import Horizons
from streams.operators.trends.recent import BLOCK_MS as MEAN_MS
from streams.operators.trends.recent import RecentMeans, close_means
from streams.operators.trends.season import NO_SEASON, Season

SNAPSHOT_VERSION = 11
HORIZONS_S = (10.0, 30.0, 300.0)
"""How far ahead forecasts reach, ascending."""


@entry(
    "void(int64[::1], int64, float64[:, ::1], float64[:, ::1], float64[:, ::1], float32[:, ::1],"
    " float64[:, ::1], float32[:, ::1], float64[::1], float64[:, ::1], float64[:, ::1], float64[:, ::1])"
)
def _take(
    times: Ints, last_ms: int, rows: Floats, readings: Floats, holt: Floats, means: Any, opened: Floats,
    low: Any, now: Floats, high: Floats, began: Floats, apart: Floats,
) -> None:  # fmt: skip
    """Take ticks after that at ``last_ms`` into all states."""
    for tick in range(times.size):
        ts_ms, values = times[tick], rows[tick]
        update_holt(ts_ms, values, readings[tick], holt)
        if ts_ms // MEAN_MS > last_ms // MEAN_MS:
            close_means(ts_ms, last_ms, values, holt[SLOPE], means, opened)
        if ts_ms // LEVEL_MS > last_ms // LEVEL_MS and last_ms >= 0:
            close_levels(ts_ms // LEVEL_MS, last_ms // LEVEL_MS, now, low, high, began)
        offset_s = ts_ms % MEAN_MS / 1000
        for column in range(values.size):
            value = values[column]
            if is_measured(value):
                follow_ticks(ts_ms, column, apart)
                opened[0, column] += value
                opened[1, column] += 1
                opened[2, column] += offset_s
                now[column] = np.fmin(now[column], value)
                high[0, column] = np.fmax(high[0, column], value)
                high[1, column] = np.fmax(high[1, column], value)
        last_ms = ts_ms


@dataclass(frozen=True, slots=True)
class TrendForecast:
    """Holds the trends of k series at one moment. NaN is absent.

    ``level`` (unit of the metric), ``slope_per_s`` (that per second) and ``exhausts_in_s`` have shape (k,);
    ``value``, the 5 % and 95 % points ``p05`` and ``p95``, and ``method``, a place in ``METHODS``, have shape
    (horizons, k), in the order of ``horizons_s``. ``exhausts_in_s`` is NaN for a series that is not running
    into its capacity.
    """

    horizons_s: tuple[float, ...]
    level: Floats
    slope_per_s: Floats
    value: Floats
    p05: Floats
    p95: Floats
    method: Ints
    exhausts_in_s: Floats

    @property
    def known(self) -> Bools:
        """Tell which forecasts there are, shape (horizons, k): those that the history of the series bears."""
        return np.asarray(np.isfinite(self.value) & np.isfinite(self.p05) & np.isfinite(self.p95))

    def pick(self, rows: Ints) -> "TrendForecast":
        """Return the same of some of the series."""
        return TrendForecast(
            horizons_s=self.horizons_s,
            level=self.level[rows],
            slope_per_s=self.slope_per_s[rows],
            value=self.value[:, rows],
            p05=self.p05[:, rows],
            p95=self.p95[:, rows],
            method=self.method[:, rows],
            exhausts_in_s=self.exhausts_in_s[rows],
        )


class TrendBank:
    """Learns the trends of n series.

    ``update`` takes every tick, ``extend`` some at once. ``forecast`` is asked every ten seconds or so.

    >>> bank = TrendBank(1)
    >>> for second in range(600):
    ...     bank.update(1000 * second, np.array([20.0 + 0.5 * second]))
    >>> said = bank.forecast()
    >>> said.level.round(1), said.slope_per_s.round(2)
    (array([319.5]), array([0.5]))
    """

    def __init__(self, n: int, horizons_s: tuple[float, ...] = HORIZONS_S) -> None:
        self._horizons_s = horizons_s
        self._began_ms, self._last_ms = -1, -1
        """When time begins (ms since 1970), just before the first tick, and the last tick since then. All
        other times are since then, so that what is found depends on the samples alone."""
        self._holt = Holt(n)
        self._exhaustion = ExhaustionDetector(n)
        self._horizons = Horizons(horizons_s, n)
        self._recent = RecentMeans(n)

    @property
    def n(self) -> int:
        """Return how many columns there are."""
        return self._holt.n

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns: column j goes on from old column ``keep[j]``, -1 is a new series."""
        self._holt.resize(keep)
        self._exhaustion.resize(keep)
        self._horizons.resize(keep)
        self._recent.resize(keep)

    def update(self, ts_ms: int, values: Floats) -> None:
        """Take the tick at ``ts_ms``; ``values`` has shape (n,), NaN is absent. See ``extend``."""
        self.extend(np.array([ts_ms]), np.asarray(values, np.float64)[np.newaxis])

    def extend(self, times: Ints, rows: Floats, readings: Floats | None = None) -> None:
        """Take ticks in the order of their ``times``, shape (ticks,); ``rows`` has shape (ticks, n).

        Forecasts are held against ``readings``, of the same shape: what was read at the moment of a tick,
        where its value is a mean; None: the values themselves.

        Raises ``ValueError`` for another shape, and for a tick that is not later than the last.
        """
        if rows.shape != (times.size, self.n):
            raise ValueError(
                f"values have shape {rows.shape[1:]}, the bank has {self.n} columns: resize first"
            )
        if self._last_ms < 0:
            self._began_ms = int(times[0]) - BEFORE_MS
        if times[0] - self._began_ms <= self._last_ms:
            raise ValueError(f"tick at {times[0]} ms is not later than {self._began_ms + self._last_ms} ms")
        times = times - self._began_ms
        rows, recent, levels, begin = np.ascontiguousarray(rows), self._recent, self._exhaustion, 0
        readings = rows if readings is None else np.ascontiguousarray(readings)
        while begin < times.size:
            # A forecast that was made for a tick is checked by what was expected before that tick.
            end = begin + self._horizons.check(times[begin:], readings[begin:], self._holt)
            _take(
                times[begin:end], self._last_ms, rows[begin:end], readings[begin:end], self._holt.state,
                recent.means, recent.open, levels.low, levels.now, levels.high, levels.began, levels.ticks,
            )  # fmt: skip
            self._last_ms = int(times[end - 1])
            begin = end

    def forecast(
        self,
        season: Season = NO_SEASON,
        *,
        lower: Floats | None = None,
        upper: Floats | None = None,
        capacity: Floats | None = None,
        resolution: Floats | None = None,
    ) -> TrendForecast:
        """Return the trends of all columns as of the last tick, with the cycles of ``season``, which include
        it. To be asked every ten seconds or so: the forecasts are kept until their moments come, and what is
        said to run out counts as announced.

        ``lower``, ``upper``, ``capacity`` and ``resolution`` have shape (n,) and the metric's unit; NaN is no
        bound. Level and forecasts are clipped to the bounds; without ``capacity`` nothing is said to run out.
        An interval reaches at least by the ``resolution``, the least difference that is measured, to both
        sides. A series that was seen fewer than two times, or not for two minutes, has NaN everywhere.
        """
        now_ms, holt = self._last_ms, self._holt
        bounds = self._bounds(lower, upper, capacity, None, resolution)
        bounds[3] = self._exhaustion.exhausts_in_s(bounds[2], now_ms, self._recent.means)
        recent = self._recent.read(now_ms, holt.state[VARIANCE])
        self._horizons.follow(season)
        (value, p05, p95), method, (level, slope) = self._horizons.forecast(
            now_ms, holt, recent, bounds, season
        )
        return TrendForecast(self._horizons_s, level, slope, value, p05, p95, method, bounds[3])

    def path(
        self,
        ahead_s: Floats,
        season: Season = NO_SEASON,
        *,
        lower: Floats | None = None,
        upper: Floats | None = None,
        capacity: Floats | None = None,
        exhausts_in_s: Floats | None = None,
    ) -> Floats:
        """Return value, 5 % and 95 % points ``ahead_s`` (ascending) after the last tick, shape (3, times, n):
        with the errors that were measured at the horizons around. As ``forecast``, but nothing is kept or
        announced: ``exhausts_in_s`` is what that has said."""
        recent = self._recent.read(self._last_ms, self._holt.state[VARIANCE])
        bounds = self._bounds(lower, upper, capacity, exhausts_in_s)
        return self._horizons.path(self._last_ms, ahead_s, self._holt, recent, bounds, season)

    def _bounds(self, *known: Floats | None) -> Floats:
        """Return least and largest value, capacity, seconds until it is reached, and resolution, shape (5,
        n); NaN for none."""
        bounds = np.full((5, self.n), np.nan)
        for row, bound in enumerate(known):
            if bound is not None:
                bounds[row] = bound
        return bounds

    def snapshot(self) -> dict[str, Any]:
        """Return plain data from which ``restore`` goes on bit for bit."""
        return {
            "v": SNAPSHOT_VERSION,
            "n": self.n,
            "began_ms": self._began_ms,
            "last_ms": self._last_ms,
            "holt": pack(self._holt.state),
            "exhaustion": self._exhaustion.snapshot(),
            "recent": self._recent.snapshot(),
            "horizons": self._horizons.snapshot(),
        }

    @classmethod
    def restore(cls, plain: dict[str, Any], horizons_s: tuple[float, ...] = HORIZONS_S) -> "TrendBank":
        """Return the bank that wrote ``plain``. Raises ``ValueError`` for one of another version or shape."""
        check_version(plain, SNAPSHOT_VERSION, "trends")
        bank = cls(plain["n"], horizons_s)
        bank._began_ms, bank._last_ms = plain["began_ms"], plain["last_ms"]
        bank._holt.state = unpack(plain["holt"], "f8", bank._holt.state.shape)
        bank._exhaustion.restore(plain["exhaustion"])
        bank._recent.restore(plain["recent"])
        bank._horizons.restore(plain["horizons"])
        return bank
