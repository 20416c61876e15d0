"""Makes the rows of the page: what the view says, by metric and labels, as of a moment. Pure.

A node whose newest sample is too old has no series, nor have its GPUs and pods: Prometheus sees them end. A
pod that held a GPU a moment ago and has not ended has 0, so that what scales on it sees no gap.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dutycycle.contract.catalogue import GPU_ROWS
from dutycycle.contract.health.changes import HEARD_OF_MS
from dutycycle.contract.health.xids import LEVELS
from dutycycle.contract.metering import BY_HEAT, BY_POWER
from dutycycle.contract.ownership.now import PodGpuUse
from dutycycle.contract.records.derived import Trend, WindowMetric
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import PodOnGpu
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import Gpu, MigDevice
from dutycycle.contract.settings.parsers import label_name
from dutycycle.contract.tensor_peak import tensor_of_peak_pct
from dutycycle.contract.units import weighted_mean
from dutycycle.telemetry.metrics import Labels, Metric
from sinks.prometheus import metrics as m
from sinks.prometheus.view import MetricsView, NodeNow

Rows = dict[Metric, dict[Labels, float]]

_FACTORS = {row.field: row.series.factor for row in GPU_ROWS if row.series is not None}
"""From the unit of a GPU's or a slice's figure to that of its series."""
_NOT_HELD = frozenset({"applications_clocks_setting", "display_clock_setting", "sync_boost"})
"""Somebody set the clocks so: that throttles nothing."""
_GPU_WINDOW = ((m.GPU_UTIL_MEAN, "mean"), (m.GPU_UTIL_MAX, "max"), (m.GPU_UTIL_P95, "p95"))
_POD_WINDOW = ((m.POD_UTIL_MEAN, "mean"), (m.POD_UTIL_MAX, "max"), (m.POD_UTIL_P95, "p95"))
_GPU_TOTALS = (
    (m.GPU_BUSY, "gpu_busy_s"), (m.GPU_SM, "gpu_sm_s"), (m.GPU_TENSOR, "gpu_tensor_s"),
    (m.GPU_WORKING, "gpu_working_s"), (m.GPU_ENERGY, "energy_j"),
)  # fmt: skip
_POD_TOTALS = (
    (m.POD_BUSY, "gpu_busy_s"), (m.POD_SM, "gpu_sm_s"), (m.POD_TENSOR, "gpu_tensor_s"),
    (m.POD_WORKING, "gpu_working_s"), (m.POD_UNTOUCHED, "gpu_untouched_s"), (m.POD_ENERGY, "energy_j"),
)  # fmt: skip


@dataclass(slots=True)
class PodNow:
    """Holds a pod that has series: its ``uses`` at the last sample, with the GPU of each, and what the ledger
    has of it, by GPU. ``identity``: None where only its uid is known."""

    uid: str
    node: NodeNow
    identity: Pod | None
    uses: list[tuple[Gpu, PodGpuUse]] = field(default_factory=list)
    totals: list[PodOnGpu] = field(default_factory=list)
    labels: Labels = ()

    @property
    def busy_s(self) -> float:
        """Return the busy GPU-seconds so far."""
        return sum(on_gpu.totals.get("gpu_busy_s", 0.0) for on_gpu in self.totals)

    @property
    def has_none(self) -> bool:
        """Tell whether it has no GPU now, and so uses 0 of all. What it does on one that the samples of its
        node lack, as they do when it is lost, nobody knows."""
        if self.uses:
            return False
        gpus = self.node.newest.gpus
        sampled = {gpu.uuid for gpu in gpus} | {part.uuid for gpu in gpus for part in gpu.mig or ()}
        return all(on_gpu.gpu in sampled for on_gpu in self.totals)

    @property
    def utils(self) -> list[float]:
        """Return the utilization of each of its GPUs; 0 of a pod that has none now."""
        return [0.0] if self.has_none else [use.util_pct for _, use in self.uses if use.util_pct is not None]


class SeriesRows:
    """Makes rows of ``view``. ``pod_labels``: keys of labels that become labels of series; ``most``: so many
    pods have series."""

    def __init__(self, view: MetricsView, pod_labels: Sequence[str], stale_s: float, most: int) -> None:
        self._view = view
        self._keys = tuple(pod_labels)
        self._stale_ms = round(stale_s * 1000)
        self._most = most
        self.omitted = 0
        """Pods without series at the last call, because there are too many."""
        names = tuple(map(label_name, pod_labels))
        split = {len(of) for of in (m.OF_POD, m.OF_JOB)}
        assert len(split) == 2  # noqa: S101 - or a pod's labels could be taken for a job's
        self._declared: dict[Metric, Metric] = {}
        for metric in m.SERIES:
            # The labels that the setting adds stand after those of the pod or the job.
            of = next((of for of in (m.OF_POD, m.OF_JOB) if metric.labels[: len(of)] == of), None)
            own = metric.labels if of is None else (*of, *names, *metric.labels[len(of) :])
            self._declared[metric] = replace(metric, labels=own)

    def rows(self, now_ms: int) -> Iterator[tuple[Metric, Mapping[Labels, float]]]:
        """Yield every metric that there is, with its values by label values."""
        rows: Rows = defaultdict(dict)
        pods: dict[str, PodNow] = {}
        for name, node in list(self._view.nodes.items()):
            if now_ms - node.heard_ms <= max(self._stale_ms, 3 * node.newest.interval_ms):
                self._gpus(rows, name, node, now_ms)
                self._find_pods(pods, name, node, now_ms)
        for health in list(self._view.health.values()):
            _health(rows, health, now_ms)
        kept = sorted(pods.values(), key=lambda pod: (-pod.busy_s, pod.uid))
        self.omitted = len(kept[self._most :])
        for pod in kept[: self._most]:
            self._pod(rows, pod, now_ms)
        # A job is what its pods are together.
        by_job: dict[Labels, list[PodNow]] = defaultdict(list)
        for pod in pods.values():
            identity = pod.identity
            if identity is not None and identity.job is not None:
                job = identity.job
                by_job[identity.namespace or "", job.kind, job.name, job.uid].append(pod)
        for labels, members in by_job.items():
            # A label of the job is what all of its pods say.
            chosen = {tuple(_chosen(pod.identity, self._keys)) for pod in members if pod.identity}
            own = chosen.pop() if len(chosen) == 1 else tuple("" for _ in self._keys)
            self._job(rows, (*labels, *own), members, self._view.insights.get(f"job/{labels[3]}"), now_ms)
        return ((self._declared[metric], rows[metric]) for metric in m.SERIES if rows.get(metric))

    def _gpus(self, rows: Rows, name: str, node: NodeNow, now_ms: int) -> None:
        part = self._view.parts.get(name)
        sample, uses = node.look()
        for gpu in sample.gpus:
            labels = name, str(gpu.index), gpu.uuid
            _put(rows, m.GPU_INFO, (*labels, gpu.model or ""), 1.0)
            _gauges(rows, m.GPU_GAUGES, labels, gpu)
            of_peak = tensor_of_peak_pct(gpu.model, gpu.tensor_active_pct, gpu.sm_clock_mhz)
            _put(rows, m.GPU_TENSOR_OF_PEAK, labels, None if of_peak is None else of_peak / 100)
            if gpu.throttle is not None:
                held = set(gpu.throttle) - _NOT_HELD
                other = held - BY_POWER - BY_HEAT
                for reason, now in (("power", held & BY_POWER), ("heat", held & BY_HEAT), ("other", other)):
                    _put(rows, m.GPU_THROTTLED, (*labels, reason), float(bool(now)))
            for mig in gpu.mig or ():
                _gauges(rows, m.SLICE_GAUGES, (*labels, mig.uuid, mig.profile or ""), mig)
            _put(rows, m.GPU_PODS, labels, float(len(uses[gpu.uuid])))
            totals = part.totals.get(gpu.uuid, {}) if part else {}
            for metric, total in _GPU_TOTALS:
                _put(rows, metric, labels, totals.get(total))
            key = f"gpu/{name}/{gpu.uuid}"
            self._window(rows, _GPU_WINDOW, key, labels, now_ms)
            trend = self._view.trends.get(f"{key}/nvml")
            _forecasts(rows, (m.GPU_FORECAST, m.GPU_MEMORY_FORECAST), labels, trend, "mem_used_bytes")
            _put(rows, m.GPU_EXHAUSTED, labels, _exhausted_s(trend, "mem_used_bytes", now_ms))
            cycle = self._view.cycles.get(f"{key}/nvml")
            for measured, rhythm in cycle.metrics.items() if cycle else ():
                _put(rows, m.GPU_PERIOD, (*labels, measured), rhythm.period_s)

    def _find_pods(self, pods: dict[str, PodNow], name: str, node: NodeNow, now_ms: int) -> None:
        """Add the pods of a node that have not ended."""

        def of(uid: str) -> PodNow:
            if uid not in pods:
                pod = self._view.pods.get(uid)
                if pod is None:  # an unknown pod has its uid as name
                    labels: Labels = ("", uid, uid, name, "", "", *("" for _ in self._keys))
                else:
                    job = (pod.job.kind, pod.job.name) if pod.job else ("", "")
                    labels = (pod.namespace or "", pod.name, uid, name, *job, *_chosen(pod, self._keys))
                pods[uid] = PodNow(uid, node, pod, labels=labels)
            return pods[uid]

        part = self._view.parts.get(name)
        for on_gpu in part.pods if part else ():
            identity = self._view.pods.get(on_gpu.pod_uid)
            seen_ms = node.seen_ms.get(on_gpu.pod_uid, 0)
            if identity is None or not identity.finished or now_ms - seen_ms <= self._stale_ms:
                of(on_gpu.pod_uid).totals.append(on_gpu)
        sample, uses = node.look()
        for gpu in sample.gpus:
            for use in uses[gpu.uuid]:
                of(use.pod_uid).uses.append((gpu, use))

    def _pod(self, rows: Rows, pod: PodNow, now_ms: int) -> None:
        labels, key = pod.labels, f"pod/{pod.uid}"
        words: dict[str, int] = defaultdict(int)
        for _, use in pod.uses:
            words[use.attribution] += 1
        for word, number in words.items():
            _put(rows, m.POD_GPUS, (*labels, word), float(number))
        _put(rows, m.POD_UTIL, labels, _mean(pod.utils, 0.01))
        _put(rows, m.POD_MEMORY, labels, _memory_bytes(pod))
        _put(rows, m.POD_POWER, labels, _power_w(pod))
        _put(rows, m.POD_SM_NOW, labels, _mean(_of_own_gpus([pod], "sm_active_pct"), 0.01))
        _put(rows, m.POD_TENSOR_NOW, labels, _mean(_of_own_gpus([pod], "tensor_active_pct"), 0.01))
        places = {gpu.uuid: str(gpu.index) for gpu in pod.node.newest.gpus}
        for on_gpu in pod.totals:
            on = (*labels, places.get(on_gpu.gpu, ""), on_gpu.gpu, on_gpu.attribution)
            for metric, total in _POD_TOTALS:
                _put(rows, metric, on, on_gpu.totals.get(total))
        self._window(rows, _POD_WINDOW, key, labels, now_ms)
        trend, host = self._view.trends.get(f"{key}/nvml"), self._view.trends.get(f"{key}/cgroup")
        _forecasts(rows, (m.POD_FORECAST, m.POD_MEMORY_FORECAST), labels, trend, "gpu_mem_used_bytes")
        # Its GPU memory is full when that of one of its GPUs is.
        on_gpus = {gpu.uuid for gpu, _ in pod.uses}
        full = [value for (_, _, uuid), value in rows[m.GPU_EXHAUSTED].items() if uuid in on_gpus]
        _put(rows, m.POD_EXHAUSTED, (*labels, "gpu"), min(full) if full else None)
        _put(rows, m.POD_EXHAUSTED, (*labels, "host"), _exhausted_s(host, "mem_used_bytes", now_ms))
        for source in ("nvml", "cgroup"):
            cycle = self._view.cycles.get(f"{key}/{source}")
            for measured, rhythm in cycle.metrics.items() if cycle else ():
                _put(rows, m.POD_CYCLIC, (*labels, measured), float(rhythm.cyclic))
                _put(rows, m.POD_PERIOD, (*labels, measured), rhythm.period_s)
                _put(rows, m.POD_CONFIDENCE, (*labels, measured), rhythm.confidence)
        _insight(rows, self._view.insights.get(key), labels, now_ms)
        if (rates := self._view.steps.rates(pod.uid, now_ms)) is not None:
            _put(rows, m.POD_STEPS, labels, rates.steps)
            _put(rows, m.POD_SAMPLES, labels, rates.samples)

    def _statistics(self, key: str, now_ms: int) -> WindowMetric | None:
        """Return those of the utilization of a GPU or pod over its newest window; None where it is old."""
        window = self._view.windows.get(key)
        if window is None or now_ms - window.end_ms > window.size_ms + self._stale_ms:
            return None
        return window.metrics.get("gpu_util_pct")

    def _window(
        self, rows: Rows, of: Sequence[tuple[Metric, str]], key: str, labels: Labels, now_ms: int
    ) -> None:
        if (statistics := self._statistics(key, now_ms)) is None:
            return
        for metric, name in of:
            value = getattr(statistics, name)
            _put(rows, metric, labels, None if value is None else value / 100)

    def _job(
        self, rows: Rows, labels: Labels, pods: Sequence[PodNow], insight: Insight | None, now_ms: int
    ) -> None:
        uses = [use for pod in pods for _, use in pod.uses]
        _put(rows, m.JOB_PODS, labels, float(len(pods)))
        _put(rows, m.JOB_GPUS, labels, float(len(uses)))
        _put(rows, m.JOB_UTIL, labels, _mean([util for pod in pods for util in pod.utils], 0.01))
        _put(rows, m.JOB_SM_NOW, labels, _mean(_of_own_gpus(pods, "sm_active_pct"), 0.01))
        _put(rows, m.JOB_TENSOR_NOW, labels, _mean(_of_own_gpus(pods, "tensor_active_pct"), 0.01))
        for metric, figure in ((m.JOB_MEMORY, _memory_bytes), (m.JOB_POWER, _power_w)):
            known = [value for pod in pods if (value := figure(pod)) is not None]
            _put(rows, metric, labels, sum(known) if known else None)
        # Of all its pods, also of those that are too many to have series.
        windows = [
            (statistics, len(pod.uses))
            for pod in pods
            if (statistics := self._statistics(f"pod/{pod.uid}", now_ms)) is not None
        ]
        mean_pct = weighted_mean((statistics.mean, gpus) for statistics, gpus in windows)
        _put(rows, m.JOB_UTIL_MEAN, labels, None if mean_pct is None else mean_pct / 100)
        most = [statistics.max for statistics, _ in windows if statistics.max is not None]
        _put(rows, m.JOB_UTIL_MAX, labels, max(most) / 100 if most else None)
        key = f"job/{labels[3]}"
        trend, host = self._view.trends.get(f"{key}/nvml"), self._view.trends.get(f"{key}/cgroup")
        _forecasts(rows, (m.JOB_FORECAST, m.JOB_MEMORY_FORECAST), labels, trend, "gpu_mem_used_bytes")
        _put(rows, m.JOB_EXHAUSTED, (*labels, "gpu"), _exhausted_s(trend, "gpu_mem_used_bytes", now_ms))
        _put(rows, m.JOB_EXHAUSTED, (*labels, "host"), _exhausted_s(host, "mem_used_bytes", now_ms))
        cycle = self._view.cycles.get(f"{key}/nvml")
        for measured, rhythm in cycle.metrics.items() if cycle else ():
            _put(rows, m.JOB_PERIOD, (*labels, measured), rhythm.period_s)
            _put(rows, m.JOB_CONFIDENCE, (*labels, measured), rhythm.confidence)
        if insight is not None:
            _put(rows, m.JOB_WORKLOAD, (*labels, insight.kind, insight.bottleneck), 1.0)
            _put(rows, m.JOB_IDLE, labels, float(_is_idle(insight)))
            gap = insight.evidence.get("rank_gap_pct")
            _put(rows, m.JOB_RANK_GAP, labels, None if gap is None else gap / 100)
            for anomaly in insight.anomalies:
                _put(rows, m.JOB_ANOMALY, (*labels, anomaly.kind), 1.0)


def _put(rows: Rows, metric: Metric, labels: Labels, value: float | None) -> None:
    if value is not None:
        rows[metric][labels] = value


def _forecasts(
    rows: Rows, series: tuple[Metric, Metric], labels: Labels, trend: Trend | None, memory: str
) -> None:
    """Put what is expected of utilization and of memory, with its interval, at each horizon. ``memory``: its
    name among the metrics."""
    for metric, name, factor in zip(series, ("gpu_util_pct", memory), (0.01, 1), strict=True):
        of_metric = trend.metrics.get(name) if trend else None
        for point in of_metric.forecast if of_metric else ():
            for bound, value in (("expected", point.value), ("p05", point.p05), ("p95", point.p95)):
                _put(rows, metric, (*labels, f"{point.horizon_s:g}s", bound), value * factor)


def _exhausted_s(trend: Trend | None, name: str, now_ms: int) -> float | None:
    """Return the seconds until memory is full, counted down since it was said, which is only said again when
    it differs by a quarter."""
    of_metric = trend.metrics.get(name) if trend else None
    if trend is None or of_metric is None or of_metric.exhausts_in_s is None:
        return None
    return max(0.0, of_metric.exhausts_in_s - max(0, now_ms - trend.ts_ms) / 1000)


def _health(rows: Rows, node: NodeHealth, now_ms: int) -> None:
    """Put the GPUs of a node of which something was said lately, also those that do not answer."""
    for gpu in node.gpus:
        if now_ms - gpu.seen_ms <= HEARD_OF_MS:
            labels = node.node, str(gpu.index), gpu.gpu
            levels: tuple[str, ...] = LEVELS
            _put(rows, m.GPU_HEALTH, labels, levels.index(gpu.level) if gpu.level in levels else None)
            for finding in gpu.findings:
                _put(rows, m.GPU_FINDING, (*labels, finding.level, finding.reason, finding.action), 1.0)
            for xid, count in gpu.xids.items():
                _put(rows, m.GPU_XIDS, (*labels, xid), float(count))
            if gpu.counters is not None:
                _put(rows, m.GPU_ECC, (*labels, "corrected"), gpu.counters.ecc_corrected)
                _put(rows, m.GPU_ECC, (*labels, "uncorrected"), gpu.counters.ecc_uncorrected)
                _put(rows, m.GPU_REMAPPED, (*labels, "corrected"), gpu.counters.rows_remapped_corrected)
                _put(rows, m.GPU_REMAPPED, (*labels, "uncorrected"), gpu.counters.rows_remapped_uncorrected)
                _put(rows, m.GPU_BANKS, (*labels, "low"), gpu.counters.banks_low)
                _put(rows, m.GPU_BANKS, (*labels, "none"), gpu.counters.banks_exhausted)
                _put(rows, m.GPU_PCIE_REPLAYS, labels, gpu.counters.pcie_replays)
                _put(rows, m.GPU_NVLINKS, labels, gpu.counters.nvlinks_active)
                _put(rows, m.GPU_NVLINK_ERRORS, labels, gpu.counters.nvlink_errors)
                _put(rows, m.GPU_RECOVERY, labels, gpu.counters.recovery_action)


def _gauges(rows: Rows, gauges: Mapping[str, Metric], labels: Labels, device: Gpu | MigDevice) -> None:
    for name, gauge in gauges.items():
        if (value := getattr(device, name)) is not None:
            _put(rows, gauge, labels, value * _FACTORS[name])


def _insight(rows: Rows, insight: Insight | None, labels: Labels, now_ms: int) -> None:
    if insight is None:
        return
    idle = _is_idle(insight)
    for anomaly in insight.anomalies:
        _put(rows, m.POD_ANOMALY, (*labels, anomaly.kind), 1.0)
    _put(rows, m.POD_WORKLOAD, (*labels, insight.kind, insight.bottleneck), 1.0)
    _put(rows, m.POD_WORKLOAD_CONFIDENCE, labels, float(insight.confidence))
    _put(rows, m.POD_IDLE, labels, float(idle))
    then_s = insight.evidence.get("idle_s", (insight.ts_ms - insight.since_ms) / 1000) if idle else 0.0
    now_s = then_s + max(0, now_ms - insight.ts_ms) / 1000 if idle else 0.0
    _put(rows, m.POD_IDLE_SECONDS, labels, now_s)
    cost = insight.evidence.get("idle_cost")
    if idle and cost is not None and then_s:  # it is said at growing distances, and grows evenly
        _put(rows, m.POD_IDLE_COST, labels, cost * now_s / then_s)


def _is_idle(insight: Insight) -> bool:
    return "idle" in (insight.kind, insight.bottleneck)


def _of_own_gpus(pods: Iterable[PodNow], metric: str) -> list[float]:
    """Give the values of the GPUs and slices that pods have to themselves, as far as they are known."""
    values = (getattr(device, metric) for pod in pods for _, use in pod.uses for device in use.own)
    return [value for value in values if value is not None]


def _memory_bytes(pod: PodNow) -> float | None:
    known = [use.mem_bytes for _, use in pod.uses if use.mem_bytes is not None]
    return sum(known) if known else 0.0 if pod.has_none else None


def _power_w(pod: PodNow) -> float | None:
    known = [
        gpu.power_w * use.part for gpu, use in pod.uses if gpu.power_w is not None and use.part is not None
    ]
    return sum(known) if known else 0.0 if pod.has_none else None


def _mean(values: Sequence[float], factor: float) -> float | None:
    return sum(values) / len(values) * factor if values else None


def _chosen(pod: Pod, keys: Iterable[str]) -> Iterator[str]:
    return ((pod.labels or {}).get(key, "") for key in keys)
