"""Makes rows of what is found of a subject over time: its cycle, its forecasts, when memory is full; and of
the health of GPUs: levels, findings, Xids and counters of faults. Pure."""

from dutycycle.contract.health.changes import HEARD_OF_MS
from dutycycle.contract.health.xids import LEVELS
from dutycycle.contract.records.derived import Trend, TrendMetric
from dutycycle.contract.records.health import NodeHealth
from dutycycle.telemetry.metrics import Labels, Metric
from sinks.prometheus import metrics as m
from sinks.prometheus.view import MetricsView

Rows = dict[Metric, dict[Labels, float]]


def put(rows: Rows, metric: Metric, labels: Labels, value: float | None) -> None:
    if value is not None:
        rows[metric][labels] = value


def forecasts(
    rows: Rows, metric: Metric, labels: Labels, trend: Trend | None, name: str, factor: float
) -> None:
    """Put what is expected of a metric, with its interval, at each horizon."""
    of_metric: TrendMetric | None = trend.metrics.get(name) if trend else None
    for point in of_metric.forecast if of_metric else ():
        for bound, value in (("expected", point.value), ("p05", point.p05), ("p95", point.p95)):
            put(rows, metric, (*labels, f"{point.horizon_s:g}s", bound), value * factor)


def exhausted_s(trend: Trend | None, name: str, now_ms: int) -> float | None:
    """Return the seconds until memory is full, counted down since it was said, which is only said again when
    it differs by a quarter."""
    of_metric = trend.metrics.get(name) if trend else None
    if trend is None or of_metric is None or of_metric.exhausts_in_s is None:
        return None
    return max(0.0, of_metric.exhausts_in_s - max(0, now_ms - trend.ts_ms) / 1000)


def analysis_of_job(rows: Rows, view: MetricsView, labels: Labels, now_ms: int) -> None:
    """Put cycle and trends of a job, whose uid is the fourth label."""
    key = f"job/{labels[3]}"
    trend, host = view.trends.get(f"{key}/nvml"), view.trends.get(f"{key}/cgroup")
    forecasts(rows, m.JOB_FORECAST, labels, trend, "gpu_util_pct", 0.01)
    forecasts(rows, m.JOB_MEMORY_FORECAST, labels, trend, "gpu_mem_used_bytes", 1)
    put(rows, m.JOB_EXHAUSTED, (*labels, "gpu"), exhausted_s(trend, "gpu_mem_used_bytes", now_ms))
    put(rows, m.JOB_EXHAUSTED, (*labels, "host"), exhausted_s(host, "mem_used_bytes", now_ms))
    cycle = view.cycles.get(f"{key}/nvml")
    for metric, rhythm in cycle.metrics.items() if cycle else ():
        put(rows, m.JOB_PERIOD, (*labels, metric), rhythm.period_s)
        put(rows, m.JOB_CONFIDENCE, (*labels, metric), rhythm.confidence)


def health_rows(rows: Rows, node: NodeHealth, now_ms: int) -> None:
    """Put the GPUs of a node of which something was said lately, also those that do not answer."""
    for gpu in node.gpus:
        if now_ms - gpu.seen_ms <= HEARD_OF_MS:
            labels = node.node, str(gpu.index), gpu.gpu
            levels: tuple[str, ...] = LEVELS
            put(rows, m.GPU_HEALTH, labels, levels.index(gpu.level) if gpu.level in levels else None)
            for finding in gpu.findings:
                put(rows, m.GPU_FINDING, (*labels, finding.level, finding.reason, finding.action), 1.0)
            for xid, count in gpu.xids.items():
                put(rows, m.GPU_XIDS, (*labels, xid), float(count))
            if gpu.counters is not None:
                put(rows, m.GPU_ECC, (*labels, "corrected"), gpu.counters.ecc_corrected)
                put(rows, m.GPU_ECC, (*labels, "uncorrected"), gpu.counters.ecc_uncorrected)
                put(rows, m.GPU_REMAPPED, (*labels, "corrected"), gpu.counters.rows_remapped_corrected)
                put(rows, m.GPU_REMAPPED, (*labels, "uncorrected"), gpu.counters.rows_remapped_uncorrected)
                put(rows, m.GPU_BANKS, (*labels, "low"), gpu.counters.banks_low)
                put(rows, m.GPU_BANKS, (*labels, "none"), gpu.counters.banks_exhausted)
                put(rows, m.GPU_PCIE_REPLAYS, labels, gpu.counters.pcie_replays)
                put(rows, m.GPU_NVLINKS, labels, gpu.counters.nvlinks_active)
                put(rows, m.GPU_NVLINK_ERRORS, labels, gpu.counters.nvlink_errors)
                put(rows, m.GPU_RECOVERY, labels, gpu.counters.recovery_action)
