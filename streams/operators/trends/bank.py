"""Level, slope and forecast of many series at once, learned tick by tick.

``TrendBank`` holds one column per series and does for all of them together what
``river.time_series.HoltWinters(alpha, beta)`` does for one; on regular ticks the numbers are the same.
"""

from typing import Any

import numpy as np

from streams.operators.columns.arrays import Bools, Floats, Ints, pack, unpack
from streams.operators.migration import migrated
from streams.operators.trends.config import TrendConfig
from streams.operators.trends.exhaustion import Climb, climb_with_moments, climb_with_said, migrated_climb
from streams.operators.trends.forecast import TrendForecast
from streams.operators.trends.holt import LEVEL, SLOPE, Holt
from streams.operators.trends.horizon import JITTER, Horizons, migrated_horizon
from streams.operators.trends.season import Season

SNAPSHOT_VERSION = 4
TOO_LARGE = 1e30
"""No real measurement is this large, and its square still fits: larger values count as absent."""


def _with_cycles(plain: dict[str, Any]) -> dict[str, Any]:
    """Version 2 knows cycles and floors; the forecasts that waited for their moment are forgotten."""
    horizons = [migrated_horizon(horizon, plain["n"]) for horizon in plain["horizons"]]
    climb = migrated_climb(plain["climb"], plain["n"])
    return {**plain, "horizons": horizons, "climb": climb}


def _with_said(plain: dict[str, Any]) -> dict[str, Any]:
    """Version 3 knows of which memory was said that it runs out, and keeps what is told; the forecasts that
    waited for their moment are forgotten."""
    horizons = [{"state": one["state"], "kept": None} for one in plain["horizons"]]
    return {**plain, "horizons": horizons, "climb": climb_with_said(plain["climb"], plain["n"])}


def _with_moments(plain: dict[str, Any]) -> dict[str, Any]:
    """Version 4 knows when memory was said to be full."""
    return {**plain, "climb": climb_with_moments(plain["climb"], plain["n"])}


_STEPS = {1: _with_cycles, 2: _with_said, 3: _with_moments}


class TrendBank:
    """The trends of n series. Feed it every tick with ``update``, tell it every ten seconds or so which
    cycles are known with ``follow``, ask it with ``forecast``."""

    def __init__(self, config: TrendConfig | None = None, n: int = 0) -> None:
        self._config = config or TrendConfig()
        self._last_ms = -1
        self._holt = Holt(self._config, n)
        self._climb = Climb(n)
        self._horizons = Horizons(self._config.horizons_s, n)
        self._said: tuple[Floats, Floats] | None = None

    @property
    def n(self) -> int:
        """How many columns there are."""
        return self._holt.n

    def resize(self, keep: Ints, n: int) -> None:
        """From now on there are ``n`` columns: column j goes on from old column ``keep[j]``, -1 is new."""
        if keep.shape != (n,):
            raise ValueError(f"keep has shape {keep.shape}, expected ({n},)")
        self._holt.resize(keep, self._last_ms)
        self._climb.resize(keep)
        self._horizons.resize(keep)
        self._said = None

    def update(self, ts_ms: int, values: Floats) -> None:
        """Take the tick at ``ts_ms`` (later than the last). ``values`` has shape (n,); NaN is absent."""
        if values.shape != (self.n,):
            raise ValueError(f"values have shape {values.shape}, the bank has {self.n} columns: resize first")
        if ts_ms <= self._last_ms:
            raise ValueError(f"tick at {ts_ms} ms is not later than {self._last_ms} ms")
        present: Bools | None = None
        # One product tells a whole tick from one with a gap (NaN) or nonsense in it (infinite, huge).
        with np.errstate(over="ignore"):
            whole = values @ values < TOO_LARGE**2
        if not whole:
            present = np.abs(values) < TOO_LARGE
            values = np.where(present, values, np.nan)
        if ts_ms + self._config.interval_ms // JITTER >= self._horizons.next_ms:
            self._horizons.check(ts_ms, self._config.interval_ms, values, present)
        self._holt.update(ts_ms, self._last_ms, values, present)
        self._last_ms, self._said = ts_ms, None
        self._climb.take(ts_ms, values)

    def follow(self, season: Season | None) -> None:
        """The cycles that are known are those of ``season`` now, the last tick included.

        What is forecast with them is kept, and held against what comes.
        """
        self._horizons.follow(season)
        self._said = self._horizons.forecast(self._last_ms, self._holt, season, keep=True)

    def forecast(
        self,
        columns: Ints | None = None,
        *,
        lower: Floats | None = None,
        upper: Floats | None = None,
        capacity: Floats | None = None,
        season: Season | None = None,
    ) -> TrendForecast:
        """The trends of ``columns`` (all by default) as of the last tick.

        ``lower``, ``upper`` and ``capacity`` align with ``columns``; NaN is no bound. Forecasts are kept
        within the bounds; ``capacity`` says where a climbing series runs out. A series seen fewer than
        two times, or not for ``reset_ms``, has NaN everywhere. ``season`` is what was handed to ``follow``.
        """
        chosen = np.arange(self.n) if columns is None else np.asarray(columns, np.int64)
        if self._said is None:
            self._said = self._horizons.forecast(self._last_ms, self._holt, season, keep=False)
        value = self._said[0][:, chosen]
        p05, p95 = (point[:, chosen] for point in self._horizons.interval(*self._said))
        known = self._holt.known(self._last_ms)[chosen]
        nothing = np.full(chosen.size, np.nan)
        bounds = (nothing if lower is None else lower, nothing if upper is None else upper)
        exhausts_in_s = nothing
        if capacity is not None:
            exhausts_in_s = self._climb.exhausts_in_s(chosen, capacity, self._last_ms)
        return TrendForecast(
            horizons_s=self._config.horizons_s,
            level=np.where(known, _within(self._holt.state[LEVEL, chosen], *bounds), np.nan),
            slope_per_s=np.where(known, self._holt.state[SLOPE, chosen], np.nan),
            value=_within(value, *bounds),
            p05=_within(p05, *bounds),
            p95=_within(p95, *bounds),
            exhausts_in_s=exhausts_in_s,
        )

    def snapshot(self) -> dict[str, Any]:
        """Plain data from which ``restore`` goes on bit for bit."""
        return {
            "v": SNAPSHOT_VERSION,
            "n": self.n,
            "last_ms": self._last_ms,
            "holt": pack(self._holt.state),
            "climb": self._climb.snapshot(),
            "horizons": self._horizons.snapshot(),
        }

    @classmethod
    def restore(cls, config: TrendConfig | None, snapshot: dict[str, Any]) -> "TrendBank":
        """The bank that wrote ``snapshot``. Raises ``ValueError`` for one of another version or shape."""
        snapshot = migrated(snapshot, SNAPSHOT_VERSION, "trends", _STEPS)
        bank = cls(config, snapshot["n"])
        bank._last_ms = snapshot["last_ms"]
        bank._holt.restore(unpack(snapshot["holt"], "f8", bank._holt.state.shape), bank._last_ms)
        bank._climb.restore(snapshot["climb"])
        bank._horizons.restore(snapshot["horizons"])
        return bank


def _within(values: Floats, lower: Floats, upper: Floats) -> Floats:
    """``values`` clipped to the bounds; a NaN bound does not bind, a NaN value stays NaN."""
    floor = np.where(np.isnan(lower), -np.inf, lower)
    ceiling = np.where(np.isnan(upper), np.inf, upper)
    return np.minimum(np.maximum(values, floor), ceiling)
