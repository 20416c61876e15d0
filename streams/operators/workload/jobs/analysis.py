"""Tells what a job's cycle, trends and state are, from the states of its ranks, and when that is published.

A record is a function of the newest parts of all pods, and its time that of the newest change of any pod that
ever was: so neither the order of the parts nor a restart changes the last record.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import isclose
from statistics import median_low
from typing import Any

from msgspec.structs import replace

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import Cycle, Forecast, Subject, Trend, TrendMetric, source_key
from dutycycle.contract.records.parts import JobInsightPart, PodTrend, WorkloadState
from streams.operators.base import Emission
from streams.operators.rounding import tidy
from streams.operators.workload.jobs.cycle import SAME, Rank, job_cycle, lasted_ms

_UTIL = "gpu_util_pct"
_DIGITS = 16
_SOURCES = ("nvml", "cgroup")
_FULL = {"gpu_mem_used_bytes": "gpu_mem_full_ms", "mem_used_bytes": "mem_full_ms"}
"""Of a metric, which field of the state says when there is no more of it."""


def merged_state(ranks: Sequence[Rank]) -> WorkloadState | None:
    """Return the state of a job of these ranks; None without any. A cycle is lost when the job has none, and
    some rank lost its own."""
    states = [state for _, state in ranks]
    if not states:
        return None
    seen_ms, cycle = max(state.seen_ms for state in states), job_cycle(ranks)
    lost = [state.lost_ms for state in states if state.lost_ms is not None]
    return WorkloadState(
        seen_ms=seen_ms, period_s=cycle.period_s, confidence=cycle.confidence,
        **_steps(ranks, cycle.period_s),
        lost_ms=None if cycle.cyclic else max(lost, default=None),
        mem_full_ms=_first(state.mem_full_ms for state in states),
        gpu_mem_full_ms=_first(state.gpu_mem_full_ms for state in states),
        trends={
            source: PodTrend(ts_ms=seen_ms, metrics=metrics)
            for source in _SOURCES
            if (metrics := job_trends(ranks, source, seen_ms))
        } or None,
    )  # fmt: skip


def _steps(ranks: Sequence[Rank], period_s: float | None) -> dict[str, Any]:
    """Return what the ranks report of their steps, as of one training: the steps of the middle rank, the
    samples of all.

    Samples are absent where a rank that steps does not count its own. ``period_s`` is that of the job; where
    it comes from, and of how many steps it is, say most of the GPUs that have it.
    """
    rates = [float(state.steps_per_s) for _, state in ranks if state.steps_per_s is not None]
    samples = [state.samples_per_s for _, state in ranks if state.steps_per_s is not None]
    counted = [float(value) for value in samples if value is not None]
    weights: Counter[tuple[str, int]] = Counter()
    for gpus, state in ranks:
        if isclose(state.period_s or 0, period_s or -1, rel_tol=SAME):
            weights[state.period_source or "", state.cycle_steps or 0] += gpus
    source, steps = max(weights, key=lambda pair: (weights[pair], pair), default=("", 0))
    return {
        "steps_per_s": median_low(rates) if rates else None,
        "samples_per_s": tidy(float(f"{sum(counted):.6g}")) if rates and len(counted) == len(rates) else None,
        "period_source": source or None, "cycle_steps": steps or None,
    }  # fmt: skip


def _first(moments: Iterable[int | None]) -> int | None:
    return min((moment for moment in moments if moment is not None), default=None)


def job_trends(ranks: Sequence[Rank], source: str, ts_ms: int) -> dict[str, TrendMetric]:
    """Return the trends of a job as of ``ts_ms``: means over the GPUs of what is a percentage, sums of the
    rest. A metric is said of a job only where it is of each of its ranks."""
    known = [trend for _, state in ranks if (trend := (state.trends or {}).get(source)) is not None]
    if not ranks or len(known) < len(ranks):
        return {}
    common = set.intersection(*(set(trend.metrics) for trend in known))
    weights = [gpus for gpus, _ in ranks]
    metrics = {}
    for metric in sorted(common):
        share = 1 / sum(weights) if metric.endswith("_pct") else None
        shares = [1.0 if share is None else gpus * share for gpus in weights]
        full_ms = _first(getattr(state, _FULL[metric]) for _, state in ranks) if metric in _FULL else None
        metrics[metric] = replace(
            _weighted_sum([trend.metrics[metric] for trend in known], shares),
            exhausts_in_s=None if full_ms is None else max(full_ms - ts_ms, 0) / 1000,
        )
    return metrics


def _weighted_sum(trends: Sequence[TrendMetric], shares: Sequence[float]) -> TrendMetric:
    """Return the sum of ``trends``, each times its share. The ranks rise and fall together, so the ends of
    their intervals are added, too. The method is that of all ranks, or else ``blend``."""

    def total(values: Iterable[float]) -> float:
        return tidy(float(f"{sum(share * value for share, value in zip(shares, values, strict=True)):.6g}"))

    by_horizon = [{forecast.horizon_s: forecast for forecast in trend.forecast} for trend in trends]
    horizons = sorted(set.intersection(*(set(forecast) for forecast in by_horizon)))
    return TrendMetric(
        level=total(trend.level for trend in trends),
        slope_per_s=total(trend.slope_per_s for trend in trends),
        forecast=tuple(
            Forecast(
                horizon_s=at,
                value=total(forecasts[at].value for forecasts in by_horizon),
                p05=total(forecasts[at].p05 for forecasts in by_horizon),
                p95=total(forecasts[at].p95 for forecasts in by_horizon),
                method=methods.pop() if len(methods) == 1 else "blend",
            )
            for at in horizons
            if (methods := {forecasts[at].method for forecasts in by_horizon})
        ),
    )


@dataclass(slots=True)
class JobAnalyses:
    """Remembers what was published of a job's cycle and trends, as digests by topic and key, and the newest
    change of any of its pods: of a cycle (or when it had lasted), of the trends of each source, and its
    end."""

    sent: dict[str, str] = field(default_factory=dict)
    cycle_ms: int = 0
    trend_ms: dict[str, int] = field(default_factory=dict)
    gone_ms: int = 0

    def note(self, part: JobInsightPart) -> None:
        """Take the times of a part, old or new."""
        self.gone_ms = max(self.gone_ms, part.latest_end_ms)
        if part.state is not None:
            lasted = [at_ms for at_ms in lasted_ms(part.state) if at_ms <= part.state.seen_ms]
            self.cycle_ms = max(self.cycle_ms, part.state.cycle_ms or 0, *lasted)
            for source, trend in (part.state.trends or {}).items():
                self.trend_ms[source] = max(self.trend_ms.get(source, 0), trend.ts_ms)

    def records(self, subject: Subject, ranks: Sequence[Rank]) -> list[Emission]:
        """Return the records that say something else than those of their keys that were sent last."""
        records: list[ProducerRecord] = []
        if self.cycle_ms:
            ts_ms = max(self.cycle_ms, self.gone_ms)
            of_job = job_cycle(ranks)
            of_job = replace(of_job, period_source=_steps(ranks, of_job.period_s)["period_source"])
            cycle = Cycle(subject=subject, source="nvml", ts_ms=ts_ms, metrics={_UTIL: of_job})
            records.append(ProducerRecord("cycles", source_key(subject, "nvml"), encode(cycle), ts_ms))
        for source in sorted(self.trend_ms):
            ts_ms = max(self.trend_ms[source], self.gone_ms)
            metrics = job_trends(ranks, source, ts_ms)  # none is said, too, once there were some
            trend = Trend(subject=subject, source=source, ts_ms=ts_ms, metrics=metrics)
            records.append(ProducerRecord("trends", source_key(subject, source), encode(trend), ts_ms))
        outs: list[Emission] = []
        for record in records:
            name, digest = f"{record.topic} {record.key}", sha256(record.value or b"").hexdigest()[:_DIGITS]
            if self.sent.get(name) != digest:
                self.sent[name] = digest
                outs.append(record)
        return outs
