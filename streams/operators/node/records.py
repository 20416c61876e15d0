"""Makes records, ready to be sent, of the trends and cycles of one node."""

from functools import lru_cache
from math import isnan
from typing import Any

import orjson

from dutycycle.contract.codec import encode, to_plain
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import Cycle, CycleMetric, Subject, source_key
from streams.operators.base import Emission
from streams.operators.columns.series import SUBJECTS, subject_of
from streams.operators.node.analysis import Evaluation
from streams.operators.rounding import tidy
from streams.operators.trends.horizon import METHODS


@lru_cache(maxsize=SUBJECTS)
def _keyed(node: str, source: str, kind: str, member: str) -> tuple[str, dict[str, Any]]:
    """Return the key of a subject's records, and the subject as plain data."""
    subject = subject_of(node, kind, member)
    return source_key(subject, source), to_plain(subject)


Trends = dict[tuple[str, str], dict[str, Any]]
"""The trends of each subject, by kind and member, and metric, as plain data."""


def analysis_records(node: str, source: str, analysis: Evaluation, trends: Trends) -> list[Emission]:
    """Return a ``Trend`` of each subject of ``trends``, and a ``Cycle`` of each of which a cycle changed."""
    outs: list[Emission] = []
    ts_ms = analysis.ts_ms
    for name, metrics_of in trends.items():
        key, plain_subject = _keyed(node, source, *name)
        # Written by hand in the order of contract.records.derived.Trend, as windows are.
        plain = {"v": 1, "subject": plain_subject, "source": source, "ts_ms": ts_ms, "metrics": metrics_of}
        outs.append(ProducerRecord("trends", key, orjson.dumps(plain), ts_ms))
    of: dict[Subject, dict[str, CycleMetric]] = {}
    for column, result in analysis.cycles:
        of.setdefault(subject_of(node, column.kind, column.member), {})[column.metric] = result
    for subject, metrics in of.items():
        cycle = Cycle(subject=subject, source=source, ts_ms=ts_ms, metrics=metrics)
        outs.append(ProducerRecord("cycles", source_key(subject, source), encode(cycle), ts_ms))
    return outs


def trends_of(analysis: Evaluation) -> Trends:
    """Return the trends of each subject of which one changed."""
    forecast = analysis.forecast
    if forecast is None:
        return {}
    horizons = [tidy(horizon) for horizon in forecast.horizons_s]
    levels, slopes, exhausts = (
        column.tolist() for column in (forecast.level, forecast.slope_per_s, forecast.exhausts_in_s)
    )
    steps = (part.T.tolist() for part in (forecast.value, forecast.p05, forecast.p95, forecast.method))
    of: Trends = {}
    for column, known, level, slope, exhausts_in_s, *points in zip(
        analysis.trend_series, forecast.known.T.tolist(), levels, slopes, exhausts, *steps, strict=True
    ):
        metric: dict[str, Any] = {
            "level": tidy(level), "slope_per_s": slope,
            "forecast": [
                {
                    "horizon_s": horizon, "value": tidy(value), "p05": tidy(low), "p95": tidy(high),
                    "method": METHODS[method],
                }
                for horizon, is_known, value, low, high, method in zip(horizons, known, *points, strict=True)
                if is_known
            ],
        }  # fmt: skip
        if not isnan(exhausts_in_s):
            metric["exhausts_in_s"] = exhausts_in_s
        of.setdefault((column.kind, column.member), {})[column.metric] = metric
    return of
