"""Analyses a node: trends and cycles of those of its series that get them."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from dutycycle.contract.catalogue import ACTIVITY_METRICS, CYCLE_METRICS, RESOLUTIONS, TREND_METRICS
from dutycycle.contract.records.derived import CycleMetric
from streams.operators.columns.arrays import Floats, pack, unpack
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import Series, remapped, subjects_of
from streams.operators.cycles.bank import TICKS, CycleConfig
from streams.operators.cycles.scales import CycleScales
from streams.operators.trends.bank import HORIZONS_S, TrendBank, TrendForecast
from streams.operators.trends.changes import TrendDebouncer
from streams.operators.trends.season import season_of

_FOLLOWS_STEPS = ("gpu_util_pct", "tensor_active_pct", "dram_active_pct", "mem_copy_util_pct", "power_w")
"""The metrics of a GPU or pod that show its steps, the one that counts most first."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Says what an evaluation found: trends, as a column of ``forecast`` for each of ``trend_series``, or
    ``cycles``. If one of a subject changed, all of that subject are there, as they are now. ``forecast`` is
    None if no trend changed."""

    ts_ms: int
    trend_series: list[Series]
    forecast: TrendForecast | None
    cycles: list[tuple[Series, CycleMetric]]

    def memory_full_ms(self) -> Iterator[tuple[Series, int | None]]:
        """Yield of each pod whose host memory has a trend here, and of each GPU: when it is full, None if it
        does not run out."""
        if self.forecast is not None:
            for trend_series, left_s in zip(
                self.trend_series, self.forecast.exhausts_in_s.tolist(), strict=True
            ):
                if trend_series.kind in ("pod", "gpu") and trend_series.metric == "mem_used_bytes":
                    yield trend_series, None if isnan(left_s) else self.ts_ms + round(left_s * 1000)

    def cycles_of_subjects(self) -> Iterator[tuple[Series, CycleMetric]]:
        """Yield of each GPU and pod of which a cycle changed, its one cycle, and of which metric that is: of
        the utilization, or else of what follows it."""
        of: dict[tuple[str, str], dict[str, CycleMetric]] = {}
        for cycle_series, cycle in self.cycles:
            of.setdefault((cycle_series.kind, cycle_series.member), {})[cycle_series.metric] = cycle
        for (kind, member), by_metric in of.items():
            known = [metric for metric in _FOLLOWS_STEPS if metric in by_metric]
            if known:
                best = next((metric for metric in known if by_metric[metric].cyclic), known[0])
                yield Series(kind, member, best), by_metric[best]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisConfig:
    """Says which metrics have trends and cycles, how far ahead forecasts reach (seconds, ascending), and how
    cycles are looked for in the ticks."""

    trend_metrics: tuple[str, ...] = tuple(sorted(TREND_METRICS))
    cycle_metrics: tuple[str, ...] = tuple(sorted(CYCLE_METRICS))
    horizons_s: tuple[float, ...] = HORIZONS_S
    cycles: CycleConfig = TICKS


ANALYSIS = AnalysisConfig()


class AnalysisBank:
    """Holds a ``TrendBank`` and ``CycleScales`` over subsets of the node's columns.

    ``series`` is always the list of all columns of the node. What few GPUs can measure
    (``ACTIVITY_METRICS``) has a cycle from its first value on, so that others need no room for it.
    """

    def __init__(self, config: AnalysisConfig = ANALYSIS) -> None:
        self._config = config
        self._trends = TrendBank(0, config.horizons_s)
        self._debouncer = TrendDebouncer(0)
        self._cycles = CycleScales(0, config.cycles)
        self._row: Floats = np.zeros(0)
        self._measured: set[Series] = set()
        """Of ``ACTIVITY_METRICS``, what had a value."""
        self._select([])

    def _select(self, series: list[Series]) -> None:
        self._series = series
        self._trend_series = [watched for watched in series if watched.metric in self._config.trend_metrics]
        cycles = [candidate for candidate in series if candidate.metric in self._config.cycle_metrics]
        self._measured.intersection_update(cycles)
        waiting = {candidate for candidate in cycles if candidate.metric in ACTIVITY_METRICS} - self._measured
        self._cycle_series = [candidate for candidate in cycles if candidate not in waiting]
        self._waiting_columns = remapped(series, [candidate for candidate in cycles if candidate in waiting])
        self._trend_subjects = subjects_of(self._trend_series)
        self._cycle_subjects = subjects_of(self._cycle_series).tolist()
        self._cycle_place = {candidate: column for column, candidate in enumerate(self._cycle_series)}
        self._witnesses = remapped(
            self._cycle_series, [_witness_of(candidate) for candidate in self._cycle_series]
        )
        self._trend_columns = remapped(series, self._trend_series)
        self._cycle_columns = remapped(series, self._cycle_series)
        self._capacity_columns = remapped(series, [_capacity_of(watched) for watched in self._trend_series])
        self._season_columns = remapped(self._trend_series, self._cycle_series)
        self._seasonal = self._season_columns >= 0
        self._resolutions = np.array([RESOLUTIONS[watched.metric] for watched in self._trend_series])
        self._shares = np.array(
            [watched.metric == "gpu_util_pct" for watched in self._trend_series], np.bool_
        )

    def resize(self, series: list[Series]) -> None:
        """Take ``series`` as the node's columns: keep what stays, begin what is new, drop what is gone."""
        trends, cycles = self._trend_series, self._cycle_series
        self._select(series)
        kept = remapped(trends, self._trend_series)
        self._trends.resize(kept)
        self._debouncer.resize(kept)
        self._cycles.resize(remapped(cycles, self._cycle_series), self._witnesses)
        self._row = np.full(len(series), np.nan)

    def extend(self, block: TickBlock, rows: Floats, readings: Floats | None = None) -> None:
        """Take ticks that are newer than the last; ``rows``: their values in the node's columns, and
        ``readings``, as of ``TickBlock``; None: the values themselves."""
        self._row = rows[-1].copy()
        # A series that waits begins with its first value, however many ticks are taken together.
        known = ~np.isnan(rows.take(self._waiting_columns, axis=1))
        first_values = {*known.argmax(axis=0)[known.any(axis=0)].tolist()} if known.any() else ()
        begin = 0
        for tick in sorted(first_values):
            self._extend_cycles(block, rows, begin, tick)
            self._measured.update(
                self._series[column] for column in self._waiting_columns if not isnan(rows[tick, column])
            )
            cycles = self._cycle_series
            self._select(self._series)
            self._cycles.resize(remapped(cycles, self._cycle_series), self._witnesses)
            begin = tick
        self._extend_cycles(block, rows, begin, len(rows))
        if readings is not None:
            readings = readings.take(self._trend_columns, axis=1)
        self._trends.extend(block.times, rows.take(self._trend_columns, axis=1), readings)

    def _extend_cycles(self, block: TickBlock, rows: Floats, begin: int, end: int) -> None:
        """Take the ticks from ``begin`` to before ``end``."""
        if begin == end:
            return
        place, times = self._cycle_place, block.times[begin:end]
        bursts = [
            (ts_ms, [(place[of_bursts], burst) for of_bursts, burst in of_tick if of_bursts in place])
            for ts_ms, of_tick in block.bursts()
            if times[0] <= ts_ms <= times[-1]
        ]
        values = rows[begin:end].take(self._cycle_columns, axis=1)
        self._cycles.extend(times, values, block.interval_ms, bursts)

    def evaluate(self, ts_ms: int) -> Evaluation:
        """Look for cycles, and then forecast with those that are known, as of the last tick at ``ts_ms``."""
        subjects = self._cycle_subjects
        concerned = {subjects[column] for column, _ in self._cycles.changes(ts_ms)} if subjects else ()
        columns = [column for column, subject in enumerate(subjects) if subject in concerned]
        published = ((column, self._cycles.published(column)) for column in columns)
        cycles = [(self._cycle_series[column], cycle) for column, cycle in published if cycle is not None]
        if not self._trend_series:
            return Evaluation(ts_ms, [], None, cycles)
        season = season_of(self._cycles.locked(self._seasonal), self._season_columns)
        capacity = np.where(self._capacity_columns >= 0, self._row[self._capacity_columns], np.nan)
        forecast = self._trends.forecast(
            season,
            lower=np.zeros(capacity.size),
            upper=np.where(self._shares, 100.0, capacity),
            capacity=capacity,
            resolution=self._resolutions,
        )
        cyclic = np.zeros(capacity.size, np.bool_)
        cyclic[season.columns] = True
        changed = self._debouncer.changes(ts_ms, forecast, cyclic, self._trend_subjects)
        if not changed.size:
            return Evaluation(ts_ms, [], None, cycles)
        changes = [self._trend_series[column] for column in changed.tolist()]
        return Evaluation(ts_ms, changes, forecast.pick(changed), cycles)

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "trends": self._trends.snapshot(),
            "debouncer": self._debouncer.snapshot(),
            "cycles": self._cycles.snapshot(),
            "row": pack(self._row),
            "measured": [list(measured) for measured in self._series if measured in self._measured],
            "config": repr(self._config),
        }

    def restore(self, plain: dict[str, Any], series: list[Series]) -> None:
        """Take over a snapshot; raises ``ValueError`` for one that was made with another configuration."""
        if plain["config"] != repr(self._config):
            raise ValueError(f"snapshot of an analysis: made with {plain['config']:.300}")
        self._trends = TrendBank.restore(plain["trends"], self._config.horizons_s)
        self._measured = {Series(*measured) for measured in plain["measured"]}
        self._select(series)
        self._debouncer = TrendDebouncer(len(self._trend_series))
        self._debouncer.restore(plain["debouncer"])
        self._cycles = CycleScales.restore(plain["cycles"], self._config.cycles, self._witnesses)
        self._row = unpack(plain["row"], "f8", (len(series),))


def _witness_of(subject_series: Series) -> Series:
    """Return the series whose bursts show the quick cycles of a series, if it has no bursts."""
    has_others = subject_series.metric in _FOLLOWS_STEPS
    return subject_series._replace(metric=_FOLLOWS_STEPS[0]) if has_others else subject_series


def _capacity_of(subject_series: Series) -> Series:
    """Return the series that says the capacity of what a series counts; it may not be there."""
    metric = "mem_limit_bytes" if subject_series.kind == "pod" else "mem_total_bytes"
    return subject_series._replace(metric=metric if subject_series.metric == "mem_used_bytes" else "")
