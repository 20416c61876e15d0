"""Keeps the current figures of pods, GPUs and hosts, from the newest windows, trends and cycles.

A figure is the mean of the shortest of the windows that ended last. A pod whose windows no longer come has
none, which is not 0: an idle pod has windows, and in them 0. The clock of a node may be ahead: what it said
gets old from the moment at which it was heard.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dutycycle.contract.catalogue import HOST_METRICS
from dutycycle.contract.records.derived import Cycle, CycleMetric, Trend, WindowAggregate, source_key
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.view.newest import NewestRecords
from sinks.adapter.metric_names import MetricName
from sinks.adapter.seasonal_load import LEAST_PERIOD_S, SeasonalLoad

_GRACE_MS = 30_000
"""How much later than its end and the allowed lateness a window may be: the next one's wait, and Kafka."""
_GONE_MS = 3_600_000
"""After so long without a window, a pod that nothing else knows of is gone."""
_SOURCES = ("nvml", "cgroup")
_OF_GPUS = {"gpu_mem_used_bytes": "mem_used_bytes"}
"""What a metric of pods is called in the windows of a GPU; every other one has the same name in both."""


class MetricValue(NamedTuple):
    """Holds a value in the metric's unit, the end of the window that it is of, and the window's length."""

    value: float
    end_ms: int
    window_s: int


class _Means(NamedTuple):
    """Holds what is kept of a window: the means, by metric. ``key``: of its subject and source."""

    key: str
    start_ms: int
    end_ms: int
    size_ms: int
    means: Mapping[str, float]


class Figures:
    """Keeps the figures of all pods and all nodes. ``lateness_s`` is that of the streams: so much after its
    end a window is written. ``wall``: Unix seconds."""

    def __init__(self, lateness_s: float, wall: Callable[[], float] = time.time) -> None:
        self._newest = NewestRecords(wall)
        self._wait_ms = round(lateness_s * 1000) + _GRACE_MS
        self._pods, self._trends = self._newest.of(Pod), self._newest.of(Trend)
        self._cycles, self._windows = self._newest.of(Cycle), self._newest.of(_Means)
        """By subject, source and size."""
        self._sizes: set[int] = set()
        self._gpus: dict[str, set[str]] = {}
        """The keys of the windows of a node's GPUs, by node."""
        self._members: dict[str, set[str]] = defaultdict(set)
        self._loads: dict[tuple[str, str], SeasonalLoad] = {}
        self._shortest_ms: int | None = None
        self._swept_ms = 0

    def take(self, topic: str, key: str, record: Any) -> None:
        """Take a record of one of the role's topics, or None for a tombstone.

        Of GPUs and nodes their windows alone are kept, of jobs nothing.
        """
        if topic == "pods":
            before = self._workload_of(key) if key in self._pods else None
            self._newest.hear(topic, key, record)
            # Move a pod, which was of the workload before and came, changed or is gone
            if before is not None:
                self._members[before].discard(key)
            if key in self._pods:
                self._members[self._workload_of(key)].add(key)
                self._watch(key)
            if before is not None and not self._members[before]:
                del self._members[before]
                self._loads = {name: load for name, load in self._loads.items() if name[0] != before}
        elif isinstance(record, WindowAggregate):
            if record.subject.kind != "job":
                self._take_window(record)
        elif record is None or record.subject.kind == "pod":
            self._newest.hear(topic, key, record)
            if topic == "cycles":
                self._watch(key.split("/")[1])

    def values(self, uids: Iterable[str], metric: MetricName, now_ms: int) -> dict[str, MetricValue]:
        """Return the metric now, or its forecast, of those pods for which it is known."""
        now = {uid: value for uid in uids if (value := self._current(uid, metric.field, now_ms)) is not None}
        if not metric.horizon_s:
            return now
        # A pod's share of what its workload will need, if that has a cycle; else what the pod's own trend
        # says; else what it is now.
        shares: dict[str, float | None] = {}
        forecasts = {}
        for uid, figure in now.items():
            workload = self._workload_of(uid)
            if workload not in shares:
                shares[workload] = self._share(workload, metric.field, metric.horizon_s, now_ms)
            then = shares[workload]
            if then is None:
                for source in _SOURCES:
                    trend = self._trends.get(f"pod/{uid}/{source}")
                    if trend is not None and metric.field in trend.metrics:
                        points = trend.metrics[metric.field].forecast
                        then = next(
                            (point.value for point in points if point.horizon_s == metric.horizon_s), None
                        )
                        break
            forecasts[uid] = figure if then is None else figure._replace(value=then)
        return forecasts

    def values_of_node(self, node: str, metric: MetricName, now_ms: int) -> list[MetricValue]:
        """Return the metric of the host, or of each GPU and slice of a node that has it; nothing of one that
        is silent."""
        if metric.field in HOST_METRICS:
            keys, name = [f"node/{node}/cgroup"], metric.field
        else:
            keys, name = sorted(self._gpus.get(node, ())), _OF_GPUS.get(metric.field, metric.field)
        return [value for key in keys if (value := self._latest([key], name, now_ms)) is not None]

    def nodes(self) -> list[str]:
        """Return the nodes that are measured."""
        hosts = {key.split("/")[1] for key in self._windows if key.startswith("node/")}
        return sorted(hosts | self._gpus.keys())

    def job_of(self, pod_uid: str) -> JobRef | None:
        """Return the topmost owner of a pod; None where it has none, or is not known."""
        pod = self._pods.get(pod_uid)
        return None if pod is None else pod.job

    def names(self, kind: str = "pod") -> set[str]:
        """Return the metrics that there are of pods, or of nodes."""
        if kind == "pod":
            return self._names_of("pod/")
        of_pods = {name: pods_name for pods_name, name in _OF_GPUS.items()}
        return self._names_of("node/") | {of_pods.get(name, name) for name in self._names_of("gpu/")}

    def _names_of(self, prefix: str) -> set[str]:
        return {
            name for key, window in self._windows.items() if key.startswith(prefix) for name in window.means
        }

    def _current(self, uid: str, metric: str, now_ms: int) -> MetricValue | None:
        return self._latest([f"pod/{uid}/{source}" for source in _SOURCES], metric, now_ms)

    def _latest(self, keys: Iterable[str], metric: str, now_ms: int) -> MetricValue | None:
        """Return the shortest of the windows that ended last, until the next one of its length is overdue.

        None then: a longer or older window would answer with load that is over, and move the autoscaler.
        """
        windows = [
            window
            for key in keys
            for size_ms in self._sizes
            if (window := self._windows.get(f"{key}/{size_ms}")) is not None and metric in window.means
        ]
        if not windows:
            return None
        newest = max(windows, key=lambda window: (window.end_ms, -window.size_ms))
        if self._is_overdue(newest, now_ms):
            return None
        return MetricValue(newest.means[metric], self._heard_ms(newest), newest.size_ms // 1000)

    def _heard_ms(self, window: _Means) -> int:
        return self._newest.heard_ms(_Means, f"{window.key}/{window.size_ms}")

    def _is_overdue(self, window: _Means, now_ms: int) -> bool:
        """Tell whether the next one of its length should be there."""
        return now_ms > self._heard_ms(window) + window.size_ms + self._wait_ms

    def _share(self, workload: str, metric: str, horizon_s: int, now_ms: int) -> float | None:
        """Return what each of the workload's pods will have, as many as have figures now."""
        load = self._loads.get((workload, metric))
        cycles = [
            (confidence, period_s)
            for uid in self._pods_of(workload)
            for period_s, confidence in self._cycles_of(uid).get(metric, ())
        ]
        if load is None or not cycles:
            return None
        _, period_s = max(cycles)  # the most certain of any of its pods, among those that are long enough
        sum_then = load.forecast(period_s, now_ms + horizon_s * 1000, now_ms - self._wait_ms)
        pods = sum(self._current(pod, metric, now_ms) is not None for pod in self._pods_of(workload))
        return None if sum_then is None or not pods else sum_then / pods

    def _cycles_of(self, uid: str) -> Mapping[str, list[tuple[float, float]]]:
        """Return period and confidence of each cycle that is long enough, by metric."""
        return {
            metric: cycles
            for source in _SOURCES
            if (record := self._cycles.get(f"pod/{uid}/{source}")) is not None
            for metric, rhythm in record.metrics.items()
            if (cycles := [cycle for cycle in _cycles(rhythm) if cycle[0] >= LEAST_PERIOD_S])
        }

    def _take_window(self, record: WindowAggregate) -> None:
        subject, key = record.subject, source_key(record.subject, record.source)
        means = {name: metric.mean for name, metric in record.metrics.items() if metric.mean is not None}
        window = _Means(key, record.start_ms, record.end_ms, record.size_ms, means)
        name = f"{key}/{record.size_ms}"
        before = self._windows.get(name)
        if (before is not None and before.end_ms == record.end_ms) or not self._newest.put(name, window):
            return
        self._sizes.add(record.size_ms)
        self._sweep(self._newest.heard_ms(_Means, name))
        if subject.kind == "gpu":
            self._gpus.setdefault(subject.node or "", set()).add(key)
        elif subject.kind == "pod":
            workload = self._workload_of(subject.pod_uid or "")
            if self._shortest_ms is None or window.size_ms < self._shortest_ms:
                self._shortest_ms = window.size_ms  # what the longer ones said, the shorter ones say, too
                self._loads = {load_name: SeasonalLoad() for load_name in self._loads}
            if window.size_ms == self._shortest_ms:
                for metric, mean in window.means.items():
                    load = self._loads.get((workload, metric))
                    if load is not None:
                        load.add(window.start_ms, window.end_ms, mean)

    def _workload_of(self, uid: str) -> str:
        """Return the uid of the pod's topmost owner, or its own."""
        job = self.job_of(uid)
        return uid if job is None else job.uid

    def _watch(self, uid: str) -> None:
        """Add up the metrics that have a cycle from now on."""
        for metric in self._cycles_of(uid):
            self._loads.setdefault((self._workload_of(uid), metric), SeasonalLoad())

    def _pods_of(self, workload: str) -> Iterable[str]:
        return self._members.get(workload) or (workload,)

    def _sweep(self, now_ms: int) -> None:
        """Forget every minute windows that are of no use any more, and what is known of pods that are gone.

        A cycle is told when it changes: it stays as long as its pod is there, however old it is.
        """
        if now_ms - self._swept_ms < 60_000:
            return
        self._swept_ms = now_ms
        current = {window.key for window in self._windows.values() if not self._is_overdue(window, now_ms)}
        self._newest.forget([_Means], now_ms, lambda window: window.key in current)
        self._gpus = {node: left for node, keys in self._gpus.items() if (left := keys & current)}

        def is_there(record: Trend | Cycle) -> bool:
            subject = record.subject
            return subject.pod_uid in self._pods or source_key(subject, record.source) in current

        self._newest.forget((Trend, Cycle), now_ms - _GONE_MS, is_there)
        self._loads = {
            (workload, metric): load
            for (workload, metric), load in self._loads.items()
            if workload in self._members or self._cycles_of(workload)
        }


def _cycles(metric: CycleMetric) -> Iterator[tuple[float, float]]:
    if metric.cyclic and metric.period_s is not None:
        yield metric.period_s, metric.confidence or 0.0
    for other in metric.others or ():
        yield other.period_s, other.confidence
