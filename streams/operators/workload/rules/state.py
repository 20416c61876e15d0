"""Tells what holds of a pod beside its insight: its cycle, since when a training lost it, its trends, and
when memory is full."""

from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from dutycycle.contract.records.derived import Forecast, TrendMetric
from dutycycle.contract.records.parts import WorkloadState
from dutycycle.contract.units import END_OF_TIME_MS
from streams.operators.workload.channels import ABSENT_CODE, Codes
from streams.operators.workload.join import JoinedSpan
from streams.operators.workload.rules.reported import ReportedSteps, with_steps
from streams.operators.workload.rules.stats import three_digits

STATE_MS = 30_000
"""The state is that of the last half minute, aligned to the Unix epoch: so whatever is sent in between, and
whenever a pod's identity becomes known, the last record says the same."""
_UTIL = "gpu_util_pct"
_USUAL_MS = 600_000
"""A training that had a cycle for so long has lost it when it has none. One that is chance ends before."""


@dataclass(slots=True)
class StateTracker:
    """Follows the spans of one pod. ``cyclic_since_ms`` stays while a cycle is lost. ``trains``: the pod
    was a training when its cycle was seen last."""

    state: WorkloadState | None = None
    cyclic_since_ms: int | None = None
    trains: bool = False
    lost_ms: int | None = None

    def add(
        self, span: JoinedSpan, kind: str | None, idle_since_ms: int | None, util: Codes,
        reported: ReportedSteps | None = None,
    ) -> None:  # fmt: skip
        """Take the next span. ``kind`` was published last; since ``idle_since_ms`` no GPU was used. ``util``:
        the utilization by the second, in percent, newest last. ``reported``: by a training in the pod."""
        part, end_ms = span.gpu, min(span.end_ms, END_OF_TIME_MS)
        if part.period_s is not None:
            self.cyclic_since_ms = part.start_ms if self.cyclic_since_ms is None else self.cyclic_since_ms
            self.trains, self.lost_ms = kind == "training", None
        elif self.cyclic_since_ms is not None and self.lost_ms is None:
            if self.trains and part.start_ms - self.cyclic_since_ms >= _USUAL_MS:
                self.lost_ms = part.start_ms
            else:
                self.cyclic_since_ms = None
        if self.state is None or end_ms % STATE_MS == 0:
            cgroup = span.cgroup
            trends = {
                source.source: source.trend
                for source in (part, cgroup)
                if source is not None and source.trend is not None
            }
            trend = trends.get("nvml")
            if trend is not None and part.period_s is not None and _UTIL in trend.metrics:
                steady = _over_the_cycle(trend.metrics[_UTIL], util, part.period_s)
                trends["nvml"] = replace(trend, metrics={**trend.metrics, _UTIL: steady})
            state = WorkloadState(
                seen_ms=end_ms, period_s=part.period_s, confidence=part.period_confidence,
                cycle_since_ms=part.period_since_ms, other_cycles=part.other_periods or None,
                cycle_ms=part.cycle_ms, lost_ms=self.lost_ms, idle_since_ms=idle_since_ms,
                mem_full_ms=None if cgroup is None else cgroup.mem_full_ms,
                gpu_mem_full_ms=part.mem_full_ms, trends=trends or None,
            )  # fmt: skip
            self.state = state if reported is None else with_steps(state, reported, part.start_ms)


def _over_the_cycle(trend: TrendMetric, util: Codes, period_s: float) -> TrendMetric:
    """Return the trend of a series with a cycle, whatever the moment of the cycle: the mean and the 5-95 %
    interval of the newest whole cycles. A forecast of one moment is out of date before anybody reads it, and
    those of a job's ranks are not of one moment."""
    whole = len(util) if period_s > len(util) else round(len(util) // period_s * period_s)
    known = util[-whole:]
    known = known[known != ABSENT_CODE]
    if not known.size:
        return trend
    mean = three_digits(float(known.mean()))
    ordered = np.sort(known)
    low, high = _percentile(ordered, 0.05), _percentile(ordered, 0.95)
    forecast = tuple(
        Forecast(horizon_s=forecast.horizon_s, value=mean, p05=low, p95=high, method="cycle")
        for forecast in trend.forecast
    )
    return TrendMetric(level=mean, slope_per_s=0.0, forecast=forecast)


def _percentile(ordered: Codes, q: float) -> float:
    """Return what ``np.percentile`` says, bit for bit, in a thirtieth of the time."""
    place = (len(ordered) - 1) * q
    part = place - int(place)
    below, above = int(ordered[int(place)]), int(ordered[min(int(place) + 1, len(ordered) - 1)])
    return above - (above - below) * (1 - part) if part >= 0.5 else below + (above - below) * part
