"""Declares the series of GPUs, pods and jobs: names, labels and meanings. ``docs/metrics.md`` lists them."""

from collections.abc import Iterable

from dutycycle.contract.catalogue import GPU_ROWS, MetricRow, rows_of
from dutycycle.telemetry.metrics import Metric

OF_GPU = ("node", "gpu", "uuid")
OF_SLICE = (*OF_GPU, "slice", "profile")
OF_POD = ("namespace", "pod", "uid", "node", "job_kind", "job_name")
"""And the labels that the setting ``pod_labels`` names, as ``label_<name>``."""
OF_JOB = ("namespace", "job_kind", "job_name", "job_uid")
"""The same."""
_ON_GPU = ("gpu", "uuid", "attribution")
_FORECAST = ("horizon", "bound")

_UTIL = "Share of the time in which a kernel ran, 0 to 1"
_SM = "Activity of the multiprocessors at the last sample"
_TENSOR = "Activity of the tensor cores at the last sample"
_WINDOW = "over the window DUTYCYCLE_METRICS_WINDOW"
_FORECAST_HELP = "Expected {} after the time of the label horizon; bound is expected, p05 or p95"


def _gauges(rows: Iterable[MetricRow], prefix: str, of: str, labels: tuple[str, ...]) -> dict[str, Metric]:
    return {
        row.field: Metric(
            f"{prefix}{row.series.name.removeprefix('gpu_')}",
            f"{row.title}{of}{', 0 to 1' if row.series.name.endswith('_ratio') else ''}: {row.meaning}",
            labels,
        )
        for row in rows
        if row.series is not None
    }


GPU_GAUGES = _gauges(GPU_ROWS, "gpu_", "", OF_GPU)
"""The figures of the newest sample, by field."""
SLICE_GAUGES = _gauges(rows_of("nvml", "slice"), "mig_", " of a MIG slice", OF_SLICE)
"""The same of MIG slices; the label gpu is the GPU that has it."""
GPU_TENSOR_OF_PEAK = Metric(
    "gpu_tensor_of_peak_ratio",
    "Tensor activity times the SM clock, by the clock at which the tensor cores' peak is quoted: an "
    "estimate, no MFU; of models whose peak is known",
    OF_GPU,
)
GPU_INFO = Metric("gpu_info", "Always 1; the GPU's model", (*OF_GPU, "model"))
GPU_UTIL_MEAN = Metric("gpu_utilization_mean_ratio", f"{_UTIL}: mean {_WINDOW}", OF_GPU)
GPU_UTIL_MAX = Metric("gpu_utilization_max_ratio", f"{_UTIL}: maximum {_WINDOW}", OF_GPU)
GPU_UTIL_P95 = Metric("gpu_utilization_p95_ratio", f"{_UTIL}: 95th percentile {_WINDOW}", OF_GPU)
GPU_THROTTLED = Metric(
    "gpu_throttled",
    "1 while the clocks are reduced for this reason: power, heat or other; 0 while they are not",
    (*OF_GPU, "reason"),
)
GPU_PODS = Metric("gpu_pods", "Pods that use the GPU or were given it", OF_GPU)
GPU_BUSY = Metric(
    "gpu_busy_seconds_total", "Time in which a kernel ran, by the ledger from the driver's samples", OF_GPU
)
GPU_SM = Metric("gpu_sm_active_seconds_total", "Time times the activity of the multiprocessors", OF_GPU)
GPU_TENSOR = Metric("gpu_tensor_active_seconds_total", "Time times the activity of the tensor cores", OF_GPU)
GPU_WORKING = Metric(
    "gpu_working_seconds_total",
    "Busy time in which the GPU worked, by its power against its limit or by its multiprocessors; in the "
    "rest of it, it waited",
    OF_GPU,
)
GPU_ENERGY = Metric("gpu_energy_joules_total", "Energy, by the driver's counter", OF_GPU)
GPU_FORECAST = Metric(
    "gpu_utilization_forecast_ratio", _FORECAST_HELP.format("utilization"), (*OF_GPU, *_FORECAST)
)
GPU_MEMORY_FORECAST = Metric(
    "gpu_memory_used_forecast_bytes", _FORECAST_HELP.format("GPU memory in use"), (*OF_GPU, *_FORECAST)
)
GPU_EXHAUSTED = Metric(
    "gpu_memory_exhausted_seconds",
    "Time until the GPU's memory is full; only while it is running out",
    OF_GPU,
)
GPU_PERIOD = Metric("gpu_cycle_period_seconds", "Length of a cycle", (*OF_GPU, "metric"))

GPU_HEALTH = Metric(
    "gpu_health",
    "0 healthy, 1 watch, 2 drain, 3 reset, 4 replace; also of a GPU that does not answer",
    OF_GPU,
)
GPU_FINDING = Metric(
    "gpu_finding",
    "Always 1; one for each reason why a GPU is not healthy",
    (*OF_GPU, "level", "reason", "action"),
)
GPU_XIDS = Metric("gpu_xid_errors_total", "Xids that the driver reported, by number", (*OF_GPU, "xid"))
GPU_ECC = Metric(
    "gpu_ecc_errors_total",
    "Errors of memory since the driver was loaded or the GPU was reset; type is corrected or uncorrected",
    (*OF_GPU, "type"),
)
GPU_REMAPPED = Metric(
    "gpu_remapped_rows", "Rows of memory that were replaced, by the type of error", (*OF_GPU, "type")
)
GPU_BANKS = Metric(
    "gpu_memory_banks",
    "Banks of memory with few rows left to replace others (spare is low), or none",
    (*OF_GPU, "spare"),
)
GPU_PCIE_REPLAYS = Metric("gpu_pcie_replays_total", "Packets sent again on the PCIe link", OF_GPU)
GPU_NVLINKS = Metric("gpu_nvlinks_active", "NVLinks that are active", OF_GPU)
GPU_NVLINK_ERRORS = Metric(
    "gpu_nvlink_errors_total", "Replays, recoveries and failed checks on all NVLinks", OF_GPU
)
GPU_RECOVERY = Metric(
    "gpu_recovery_action", "What the driver wants done, by NVIDIA's number; 0 is nothing", OF_GPU
)

POD_GPUS = Metric(
    "pod_gpus", "GPUs that the pod uses or was given, by how its use is known", (*OF_POD, "attribution")
)
POD_UTIL = Metric(
    "pod_gpu_utilization_ratio", f"{_UTIL}, at the last sample: mean over the pod's GPUs", OF_POD
)
POD_UTIL_MEAN = Metric(
    "pod_gpu_utilization_mean_ratio", f"{_UTIL}: mean {_WINDOW} and the pod's GPUs", OF_POD
)
POD_UTIL_MAX = Metric(
    "pod_gpu_utilization_max_ratio", f"{_UTIL}: maximum {_WINDOW}, of the mean over the pod's GPUs", OF_POD
)
POD_UTIL_P95 = Metric(
    "pod_gpu_utilization_p95_ratio", f"{_UTIL}: 95th percentile {_WINDOW}, of the same", OF_POD
)
POD_MEMORY = Metric("pod_gpu_memory_used_bytes", "GPU memory that the pod uses", OF_POD)
POD_POWER = Metric("pod_gpu_power_watts", "The pod's part of the power of its GPUs", OF_POD)
POD_SM_NOW = Metric(
    "pod_gpu_sm_active_ratio", f"{_SM}: mean over the GPUs and slices that the pod has to itself", OF_POD
)
POD_TENSOR_NOW = Metric(
    "pod_gpu_tensor_active_ratio",
    f"{_TENSOR}: mean over the GPUs and slices that the pod has to itself",
    OF_POD,
)
POD_BUSY = Metric(
    "pod_gpu_busy_seconds_total",
    "The pod's part of the time in which a kernel ran on this GPU, by the ledger",
    (*OF_POD, *_ON_GPU),
)
POD_SM = Metric(
    "pod_gpu_sm_active_seconds_total",
    "The pod's part of the time times the activity of the multiprocessors",
    (*OF_POD, *_ON_GPU),
)
POD_TENSOR = Metric(
    "pod_gpu_tensor_active_seconds_total",
    "The pod's part of the time times the activity of the tensor cores",
    (*OF_POD, *_ON_GPU),
)
POD_WORKING = Metric(
    "pod_gpu_working_seconds_total",
    "The pod's part of the busy time in which the GPU worked, and did not wait",
    (*OF_POD, *_ON_GPU),
)
POD_UNTOUCHED = Metric(
    "pod_gpu_untouched_seconds_total",
    "Time in which the pod held this GPU and no process of its was on it; where processes are seen",
    (*OF_POD, *_ON_GPU),
)
POD_ENERGY = Metric(
    "pod_gpu_energy_joules_total",
    "The pod's part of the GPU's energy, by the ledger",
    (*OF_POD, *_ON_GPU),
)
POD_CYCLIC = Metric("pod_cyclic", "1 while the metric has a cycle, 0 after it was lost", (*OF_POD, "metric"))
POD_PERIOD = Metric(
    "pod_cycle_period_seconds", "Length of a cycle, such as a training step", (*OF_POD, "metric")
)
POD_CONFIDENCE = Metric(
    "pod_cycle_confidence_ratio", "Probability that the cycle is right, 0 to 1", (*OF_POD, "metric")
)
POD_FORECAST = Metric(
    "pod_gpu_utilization_forecast_ratio", _FORECAST_HELP.format("utilization"), (*OF_POD, *_FORECAST)
)
POD_MEMORY_FORECAST = Metric(
    "pod_gpu_memory_used_forecast_bytes", _FORECAST_HELP.format("GPU memory in use"), (*OF_POD, *_FORECAST)
)
POD_EXHAUSTED = Metric(
    "pod_memory_exhausted_seconds",
    "Time until memory is full; only while it is running out; memory is gpu or host",
    (*OF_POD, "memory"),
)
POD_WORKLOAD = Metric(
    "pod_workload_info", "Always 1; kind of workload and bottleneck", (*OF_POD, "kind", "bottleneck")
)
POD_WORKLOAD_CONFIDENCE = Metric(
    "pod_workload_confidence_ratio", "Probability that the kind of workload is right, 0 to 1", OF_POD
)
POD_STEPS = Metric(
    "pod_training_steps_per_second",
    "Steps a second by the time they took, as the training reports them; the last minute",
    OF_POD,
)
POD_SAMPLES = Metric(
    "pod_training_samples_per_second",
    "Samples a second of all its processes, where each of them counts its samples; the last minute",
    OF_POD,
)
POD_IDLE = Metric("pod_idle", "1 while the pod holds GPUs that it does not use, else 0", OF_POD)
POD_IDLE_SECONDS = Metric("pod_idle_seconds", "For how long the pod has been idle; 0 if it is not", OF_POD)
POD_IDLE_COST = Metric(
    "pod_idle_cost",
    "What the idle time has cost so far; only with DUTYCYCLE_PRICE_GPU_HOUR or DUTYCYCLE_PRICE_KWH",
    OF_POD,
)

POD_ANOMALY = Metric(
    "pod_anomaly",
    "1 while it holds: anomaly is slow_steps, hot_gpu, slow_gpu, power, hang, stall or frozen; "
    "only while it is told",
    (*OF_POD, "anomaly"),
)

JOB_PODS = Metric("job_pods", "Pods of the job that use GPUs or were given some", OF_JOB)
JOB_GPUS = Metric("job_gpus", "GPUs of the job", OF_JOB)
JOB_UTIL = Metric(
    "job_gpu_utilization_ratio", f"{_UTIL}, at the last sample: mean over the job's GPUs", OF_JOB
)
JOB_SM_NOW = Metric(
    "job_gpu_sm_active_ratio",
    f"{_SM}: mean over the GPUs and slices that the job's pods have to themselves",
    OF_JOB,
)
JOB_TENSOR_NOW = Metric(
    "job_gpu_tensor_active_ratio",
    f"{_TENSOR}: mean over the GPUs and slices that the job's pods have to themselves",
    OF_JOB,
)
JOB_UTIL_MEAN = Metric(
    "job_gpu_utilization_mean_ratio", f"{_UTIL}: mean {_WINDOW} and the job's GPUs", OF_JOB
)
JOB_UTIL_MAX = Metric(
    "job_gpu_utilization_max_ratio", f"{_UTIL}: maximum {_WINDOW}, of the job's busiest pod", OF_JOB
)
JOB_MEMORY = Metric("job_gpu_memory_used_bytes", "GPU memory that the job uses", OF_JOB)
JOB_POWER = Metric("job_gpu_power_watts", "The job's part of the power of its GPUs", OF_JOB)
JOB_WORKLOAD = Metric(
    "job_workload_info", "Always 1; kind of workload and bottleneck", (*OF_JOB, "kind", "bottleneck")
)
JOB_IDLE = Metric("job_idle", "1 while the job holds GPUs that it does not use, else 0", OF_JOB)
JOB_RANK_GAP = Metric(
    "job_rank_gap_ratio", "How much the busiest pod works more than the least busy one, 0 to 1", OF_JOB
)
JOB_PERIOD = Metric(
    "job_cycle_period_seconds", "Length of the cycle that most of the job's ranks have", (*OF_JOB, "metric")
)
JOB_CONFIDENCE = Metric(
    "job_cycle_confidence_ratio", "How sure its ranks are of the job's cycle, 0 to 1", (*OF_JOB, "metric")
)
JOB_FORECAST = Metric(
    "job_gpu_utilization_forecast_ratio", _FORECAST_HELP.format("utilization"), (*OF_JOB, *_FORECAST)
)
JOB_MEMORY_FORECAST = Metric(
    "job_gpu_memory_used_forecast_bytes", _FORECAST_HELP.format("GPU memory in use"), (*OF_JOB, *_FORECAST)
)
JOB_EXHAUSTED = Metric(
    "job_memory_exhausted_seconds",
    "Time until the memory of the job's first rank is full; only while it is running out; gpu or host",
    (*OF_JOB, "memory"),
)

JOB_ANOMALY = Metric(
    "job_anomaly", "The same of the job: of its pods, and what shows only between them", (*OF_JOB, "anomaly")
)

SERIES = (
    *GPU_GAUGES.values(),
    *SLICE_GAUGES.values(),
    *(value for value in list(globals().values()) if isinstance(value, Metric)),
)
"""All of the above, in the order of the page."""
