"""The current figures of pods, from the newest windows, trends and cycles. Pure: the time is an argument.

A figure is the mean of the shortest of the windows that ended last. A pod whose windows no longer come has
none, which is not 0: an idle pod has windows, and in them 0.
"""

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dutycycle.contract.metering import is_outdated
from dutycycle.contract.metrics import METRICS
from dutycycle.contract.records.derived import Cycle, CycleMetric, Trend, WindowAggregate
from dutycycle.contract.records.pods import Pod
from sinks.adapter.wave import LEAST_PERIOD_S, SLOT_MS, SLOTS, Wave

SHOWN_HORIZON_S = 300
"""The horizon of the forecasts that discovery lists; others are answered too."""
_GRACE_MS = 30_000
"""How much later than its end and the allowed lateness a window may be: the next one's wait, and Kafka."""
_FORECAST = re.compile(r"(.+)_in_([1-9][0-9]{0,4})s")
_SOURCES = ("nvml", "cgroup")
_LONGEST_S = SLOTS * SLOT_MS // 1000
"""Nothing is forecast beyond the longest cycle."""


class MetricValue(NamedTuple):
    """A value in the metric's unit, the end of the window that it is of, and the window's length."""

    value: float
    end_ms: int
    window_s: int


class PodFigures:
    """Of all pods. ``lateness_s`` is that of the streams: so much after its end a window is written."""

    def __init__(self, lateness_s: float) -> None:
        self._wait_ms = round(lateness_s * 1000) + _GRACE_MS
        self._windows: dict[str, dict[int, WindowAggregate]] = defaultdict(dict)
        self._trends: dict[str, Trend] = {}
        self._cycles: dict[str, Cycle] = {}
        self._workloads: dict[str, str] = {}
        self._members: dict[str, set[str]] = defaultdict(set)
        self._waves: dict[tuple[str, str], Wave] = {}
        self._shortest_ms: int | None = None
        self._swept_ms = 0

    def take(self, topic: str, key: str, record: Any) -> None:
        """A record of one of the topics (``DERIVED``), or None for a tombstone.

        Of subjects other than pods nothing is kept.
        """
        if topic == "pods":
            self._identify(key, record)
        elif topic == "trends":
            _keep(self._trends, key, record)
        elif topic == "cycles":
            _keep(self._cycles, key, record)
            self._watch(key.split("/")[1])
        elif isinstance(record, WindowAggregate) and record.subject.kind == "pod":
            self._take_window(record)

    def refusal(self, metric: str) -> str | None:
        """Say why there can never be such a metric, with the one that may be meant; None if there can."""
        match = _FORECAST.fullmatch(metric)
        name = match[1] if match else metric
        if match and int(match[2]) > _LONGEST_S:
            return f"{metric}: forecasts reach {_LONGEST_S} s, the longest cycle"
        if name in METRICS:
            return None
        close = difflib.get_close_matches(name, METRICS, n=1)
        return f"there is no metric {name}" + (f"; did you mean {close[0]}?" if close else "")

    def values(self, uids: Iterable[str], metric: str, now_ms: int) -> dict[str, MetricValue]:
        """``gpu_util_pct``, or its forecast ``gpu_util_pct_in_300s``, of those pods for which it is known."""
        match = _FORECAST.fullmatch(metric)
        name, horizon_s = (match[1], int(match[2])) if match else (metric, 0)
        now = {uid: one for uid in uids if (one := self._current(uid, name, now_ms)) is not None}
        return self._forecast(now, name, horizon_s, now_ms) if horizon_s else now

    def names(self) -> list[str]:
        """The metrics that there are."""
        there = {
            name
            for windows in self._windows.values()
            for window in windows.values()
            for name, metric in window.metrics.items()
            if metric.mean is not None
        }
        return sorted(there | {f"{name}_in_{SHOWN_HORIZON_S}s" for name in there})

    def _current(self, uid: str, metric: str, now_ms: int) -> MetricValue | None:
        """The shortest of the windows that ended last, until the next one of its length is overdue.

        None then: a longer or older window would answer with load that is over, and move the autoscaler.
        """
        figures = [
            MetricValue(mean, window.end_ms, window.size_ms // 1000)
            for source in _SOURCES
            for window in self._windows.get(f"pod/{uid}/{source}", {}).values()
            if (mean := _mean(window, metric)) is not None
        ]
        if not figures:
            return None
        newest = max(figures, key=lambda figure: (figure.end_ms, -figure.window_s))
        overdue_ms = newest.end_ms + newest.window_s * 1000 + self._wait_ms
        return newest if now_ms <= overdue_ms else None

    def _forecast(
        self, now: Mapping[str, MetricValue], metric: str, horizon_s: int, now_ms: int
    ) -> dict[str, MetricValue]:
        """A pod's share of what its workload will need, if that has a cycle; else what the pod's own trend
        says; else what it is now."""
        shares: dict[str, float | None] = {}
        found = {}
        for uid, figure in now.items():
            workload = self._workloads.get(uid, uid)
            if workload not in shares:
                shares[workload] = self._share(workload, metric, horizon_s, now_ms)
            value = shares[workload]
            if value is None:
                value = self._trend(uid, metric, horizon_s)
            found[uid] = figure if value is None else figure._replace(value=value)
        return found

    def _share(self, workload: str, metric: str, horizon_s: int, now_ms: int) -> float | None:
        """What each of the workload's pods will have, as many as have figures now."""
        wave, period_s = self._waves.get((workload, metric)), self._period_s(workload, metric)
        if wave is None or period_s is None:
            return None
        sum_then = wave.forecast(period_s, now_ms + horizon_s * 1000, now_ms - self._wait_ms)
        pods = sum(self._current(pod, metric, now_ms) is not None for pod in self._pods_of(workload))
        return None if sum_then is None or not pods else sum_then / pods

    def _trend(self, uid: str, metric: str, horizon_s: int) -> float | None:
        for source in _SOURCES:
            trend = self._trends.get(f"pod/{uid}/{source}")
            if trend is not None and metric in trend.metrics:
                return next(
                    (one.value for one in trend.metrics[metric].forecast if one.horizon_s == horizon_s), None
                )
        return None

    def _period_s(self, workload: str, metric: str) -> float | None:
        """That of the most certain cycle of any of its pods, among those that are long enough."""
        found = [
            (confidence, period_s)
            for uid in self._pods_of(workload)
            for period_s, confidence in self._cycles_of(uid).get(metric, ())
        ]
        return max(found)[1] if found else None

    def _cycles_of(self, uid: str) -> Mapping[str, list[tuple[float, float]]]:
        """Period and confidence of each cycle that is long enough, by metric."""
        return {
            metric: cycles
            for source in _SOURCES
            if (record := self._cycles.get(f"pod/{uid}/{source}")) is not None
            for metric, one in record.metrics.items()
            if (cycles := [cycle for cycle in _cycles(one) if cycle[0] >= LEAST_PERIOD_S])
        }

    def _take_window(self, record: WindowAggregate) -> None:
        uid = record.subject.pod_uid or ""
        windows = self._windows[f"pod/{uid}/{record.source}"]
        before = windows.get(record.size_ms)
        if before is not None and (
            before.end_ms == record.end_ms or is_outdated(record.end_ms, before.end_ms)
        ):
            return
        windows[record.size_ms] = record
        self._sweep(record.end_ms)
        if self._shortest_ms is None or record.size_ms < self._shortest_ms:
            self._shortest_ms = record.size_ms
            self._waves = {name: Wave() for name in self._waves}  # what was added is in the shorter ones too
        if record.size_ms == self._shortest_ms:
            workload = self._workloads.get(uid, uid)
            for metric in record.metrics:
                wave, mean = self._waves.get((workload, metric)), _mean(record, metric)
                if wave is not None and mean is not None:
                    wave.add(record.start_ms, record.end_ms, mean)

    def _identify(self, uid: str, pod: Pod | None) -> None:
        before = self._workloads.pop(uid, None)
        if before is not None:
            self._members[before].discard(uid)
        if pod is not None:
            workload = uid if pod.job is None else pod.job.uid
            self._workloads[uid] = workload
            self._members[workload].add(uid)
            self._watch(uid)
        if before is not None and not self._members[before]:
            del self._members[before]
            self._waves = {name: wave for name, wave in self._waves.items() if name[0] != before}

    def _watch(self, uid: str) -> None:
        """Add up the metrics that have a cycle from now on."""
        for metric in self._cycles_of(uid):
            self._waves.setdefault((self._workloads.get(uid, uid), metric), Wave())

    def _pods_of(self, workload: str) -> Iterable[str]:
        return self._members.get(workload) or (workload,)

    def _sweep(self, now_ms: int) -> None:
        """Every minute: forget windows that are of no use any more."""
        if 0 <= now_ms - self._swept_ms < 60_000:
            return
        self._swept_ms = now_ms
        for key, windows in list(self._windows.items()):
            if all(now_ms > window.end_ms + window.size_ms + self._wait_ms for window in windows.values()):
                del self._windows[key]


def _keep(records: dict[str, Any], key: str, record: Any) -> None:
    if record is None:
        records.pop(key, None)
    elif key.startswith("pod/"):
        records[key] = record


def _mean(window: WindowAggregate, metric: str) -> float | None:
    found = window.metrics.get(metric)
    return None if found is None else found.mean


def _cycles(metric: CycleMetric) -> Iterator[tuple[float, float]]:
    if metric.cyclic and metric.period_s is not None:
        yield metric.period_s, metric.confidence or 0.0
    for other in metric.others or ():
        yield other.period_s, other.confidence
