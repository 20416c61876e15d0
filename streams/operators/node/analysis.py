"""Trends and cycles of the series that get them, in columns that follow the node's."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from streams.operators.columns.arrays import Floats, Ints, pack, unpack
from streams.operators.columns.series import CYCLE_METRICS, TREND_METRICS, Series, remapped
from streams.operators.cycles.bursts import Burst
from streams.operators.cycles.result import CycleResult
from streams.operators.cycles.scales import CycleScales
from streams.operators.trends.bank import TrendBank, TrendForecast
from streams.operators.trends.changes import TrendDebouncer
from streams.operators.trends.season import Season, season_of

_NONE: Ints = np.zeros(0, np.int64)


@dataclass(slots=True)
class Insights:
    """What an evaluation found: the forecasts that are news, one per trend series, and the cycles that
    changed."""

    ts_ms: int
    trend_series: list[Series] = field(default_factory=list)
    forecast: TrendForecast | None = None
    cycles: list[tuple[Series, CycleResult]] = field(default_factory=list)


class InsightBank:
    """Holds a ``TrendBank`` and a ``CycleScales`` over subsets of the node's columns."""

    def __init__(self) -> None:
        self._trends = TrendBank()
        self._debouncer = TrendDebouncer()
        self._cycles = CycleScales()
        self._trend_series: list[Series] = []
        self._cycle_series: list[Series] = []
        self._cycle_place: dict[Series, int] = {}
        self._trend_columns = self._cycle_columns = self._capacity_columns = self._season_columns = _NONE
        self._row: Floats = np.zeros(0)

    def select(self, series: list[Series]) -> None:
        """The node's columns are ``series`` now: keep what stays, begin what is new, drop what is gone."""
        trends = [one for one in series if one.metric in TREND_METRICS]
        cycles = [one for one in series if one.metric in CYCLE_METRICS]
        kept = remapped(self._trend_series, trends)
        self._trends.resize(kept)
        self._debouncer.resize(kept)
        self._cycles.resize(remapped(self._cycle_series, cycles))
        self._row = np.full(len(series), np.nan)
        self._aim(series, trends, cycles)

    def _aim(self, series: list[Series], trends: list[Series], cycles: list[Series]) -> None:
        self._trend_series, self._cycle_series = trends, cycles
        self._cycle_place = {one: column for column, one in enumerate(cycles)}
        self._trend_columns = remapped(series, trends)
        self._cycle_columns = remapped(series, cycles)
        self._capacity_columns = remapped(series, [_capacity(one) for one in trends])
        self._season_columns = remapped(trends, cycles)

    def update(
        self,
        ts_ms: int,
        interval_ms: int,
        columns: Ints,
        values: Floats,
        width: int,
        bursts: Sequence[tuple[Series, Burst]] = (),
    ) -> None:
        """Take a tick that is newer than the last. ``values`` are those of the node's ``columns``.

        ``bursts`` are the driver's samples since the last tick, of the series that have any.
        """
        row = np.full(width, np.nan)
        row[columns] = values
        self._row = row
        place = self._cycle_place
        heard = [(place[one], burst) for one, burst in bursts if one in place]
        self._cycles.update(ts_ms, row[self._cycle_columns], interval_ms, heard)
        self._trends.update(ts_ms, row[self._trend_columns])

    def evaluate(self, ts_ms: int) -> Insights:
        """Forecast every trend, look for cycles."""
        found = Insights(ts_ms)
        for column, result in self._cycles.changes(ts_ms):
            found.cycles.append((self._cycle_series[column], result))
        if self._trend_series:
            season = self._season()
            self._trends.follow(season)
            capacity = self._capacity()
            forecast = self._trends.forecast(
                lower=np.zeros(len(self._trend_series)), upper=self._upper(capacity), capacity=capacity
            )
            cyclic = np.isin(np.arange(len(self._trend_series)), season.columns if season else _NONE)
            changed = self._debouncer.changes(ts_ms, forecast, cyclic)
            found.trend_series = [self._trend_series[column] for column in changed]
            found.forecast = forecast.pick(changed)
        return found

    def _season(self) -> Season | None:
        return season_of(self._cycles, self._season_columns)

    def _capacity(self) -> Floats:
        known = self._capacity_columns >= 0
        return np.where(known, self._row[np.maximum(self._capacity_columns, 0)], np.nan)

    def _upper(self, capacity: Floats) -> Floats:
        shares = np.array([one.metric == "gpu_util_pct" for one in self._trend_series], np.bool_)
        return np.where(shares, 100.0, capacity)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        trends, cycles = self._trends.snapshot(), self._cycles.snapshot()
        return {
            "trends": trends,
            "debouncer": self._debouncer.snapshot(),
            "cycles": cycles,
            "row": pack(self._row),
        }

    def restore(self, plain: dict[str, Any], series: list[Series]) -> None:
        """Take over a snapshot of a node with the columns ``series``."""
        trends = [one for one in series if one.metric in TREND_METRICS]
        cycles = [one for one in series if one.metric in CYCLE_METRICS]
        self._trends = TrendBank.restore(plain["trends"])
        self._debouncer = TrendDebouncer.restore(plain["debouncer"])
        self._cycles = CycleScales.restore(plain["cycles"])
        self._row = unpack(plain["row"], "f8", (len(series),))
        self._aim(series, trends, cycles)


def _capacity(one: Series) -> Series:
    """The series that says how much there is of what ``one`` uses; perhaps one that is not there."""
    metric = "mem_limit_bytes" if one.kind == "pod" else "mem_total_bytes"
    metric = metric if one.metric == "mem_used_bytes" else ""
    return Series(one.kind, one.member, metric)
