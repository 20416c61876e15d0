"""Scores forecasts against the samples that come: error over persistence's, and how often the interval
held."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, NamedTuple

import msgspec

from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import Forecast, Trend
from dutycycle.contract.records.models import BUILT_IN, ModelForecast, ModelPoint
from dutycycle.traces.ticks import subject_key
from streams.operators.columns.block import TickBlock
from streams.operators.columns.tick import TickRow

_EARLY = 0.1
"""A tick that comes up to so many intervals too soon is the one that was forecast."""
_LATE = 2
"""After so many intervals the moment is past, and nothing was measured in it."""


class _Pending(NamedTuple):
    due_ms: int
    now: float
    forecast: Forecast | ModelPoint


@dataclass(slots=True)
class _Errors:
    """Sums the errors of one series at one horizon."""

    count: int = 0
    error: float = 0.0
    persistence: float = 0.0
    bounded: int = 0
    inside: int = 0

    def add(self, pending: _Pending, truth: float) -> None:
        self.count += 1
        self.error += abs(pending.forecast.value - truth)
        self.persistence += abs(pending.now - truth)
        if isinstance(pending.forecast, Forecast):
            self.bounded += 1
            self.inside += pending.forecast.p05 <= truth <= pending.forecast.p95


@dataclass(slots=True)
class _Series:
    """Holds what was measured last of one series, and the forecasts of it that wait, by who made them and how
    far they reach."""

    ts_ms: int = -1
    value: float = float("nan")
    reading: float = float("nan")
    pending: dict[tuple[str, float], deque[_Pending]] = field(default_factory=dict)


class ForecastScorer:
    """Holds each forecast until its moment comes. Of the forecasts, those are scored that are published.

    Where a tick has samples of the driver, its value is their mean. Models learn from that and are held
    against it; the built-in trends are held against what was read, which is what they forecast.
    """

    def __init__(self) -> None:
        self._series: dict[tuple[str, str], _Series] = defaultdict(_Series)
        self._errors: dict[tuple[str, str, float], dict[tuple[str, str], _Errors]] = defaultdict(dict)

    def output(self, record: ProducerRecord) -> None:
        """Take a record that the replay made of the sample before."""
        if record.topic == "trends" and record.value is not None:
            trend = msgspec.json.decode(record.value, type=Trend)
            for metric, metric_trend in trend.metrics.items():
                self._take(BUILT_IN, (trend.subject.key, metric), trend.ts_ms, metric_trend.forecast)
        elif record.topic == "model-forecasts" and record.value is not None:
            forecast = msgspec.json.decode(record.value, type=ModelForecast)
            self._take(
                forecast.model, (forecast.subject.key, forecast.metric), forecast.ts_ms, forecast.forecast
            )

    def _take(
        self, who: str, place: tuple[str, str], ts_ms: int, forecasts: Sequence[Forecast | ModelPoint]
    ) -> None:
        series = self._series[place]
        if series.ts_ms != ts_ms:
            return  # there is no value of this moment to compare with
        for forecast in forecasts:
            now = series.reading if who == BUILT_IN else series.value
            waiting = series.pending.setdefault((who, forecast.horizon_s), deque())
            waiting.append(_Pending(ts_ms + round(forecast.horizon_s * 1000), now, forecast))

    def tick(self, node: str, tick: TickRow) -> None:
        """Take the ticks of a sample, after what the replay made of it."""
        block = TickBlock([tick])
        figures = zip(block.values[0].tolist(), block.readings[0].tolist(), strict=True)
        for column, (value, reading) in zip(tick.layout.series, figures, strict=True):
            if value != value:  # absent
                continue
            place = subject_key(node, column), column.metric
            series = self._series[place]
            if tick.ts_ms <= series.ts_ms:
                continue
            if reading != reading:  # absent where the driver's samples alone tell: as the trends take it
                reading = value
            series.ts_ms, series.value, series.reading = tick.ts_ms, value, reading
            for (who, horizon_s), waiting in series.pending.items():
                while waiting and waiting[0].due_ms <= tick.ts_ms + _EARLY * tick.interval_ms:
                    due = waiting.popleft()
                    if tick.ts_ms - due.due_ms <= _LATE * tick.interval_ms:
                        of_it = self._errors[who, place[1], horizon_s]
                        of_it.setdefault(place, _Errors()).add(due, reading if who == BUILT_IN else value)

    def result(self) -> list[dict[str, Any]]:
        """Return a row for each forecaster, metric and horizon.

        ``error``: mean absolute error over that of persistence (what is now stays), the mean over the series
        in which persistence errs; ``coverage``: the share of values within the 5-95 % interval.
        """
        rows = []
        for who, metric, horizon_s in sorted(self._errors):
            of_all = self._errors[who, metric, horizon_s].values()
            ratios = [score.error / score.persistence for score in of_all if score.persistence > 0]
            bounded = sum(score.bounded for score in of_all)
            rows.append({
                "forecaster": who,
                "metric": metric,
                "horizon_s": horizon_s,
                "series": len(of_all),
                "forecasts": sum(score.count for score in of_all),
                "error": fmean(ratios) if ratios else None,
                "coverage": sum(score.inside for score in of_all) / bounded if bounded else None,
            })  # fmt: skip
        return rows
