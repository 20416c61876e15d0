"""The values of our annotations, from records. Pure. What is absent in the record is absent in the value.

Units are decimal: GB is 10⁹ bytes, MB 10⁶, and Mbit/s 10⁶ bits. Network and disk are the busier of the two
directions: of the two together no maximum is known.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from contract.records.derived import JobPeaks, Peaks, PodOfJob, PodPeaks
from contract.records.insights import Insight
from contract.records.samples import Gpu, GpuProcess
from sinks.annotations.core import keys

UNKNOWN_PID = 0
"""No process has this PID: whoever gives it does not know the processes."""
MOST_PROCESSES = 64
"""In one value: those with the most; a value is meant to be short."""
_NETWORK = ("net_rx_bytes_per_s", "net_tx_bytes_per_s")
_DISK = ("io_read_bytes_per_s", "io_write_bytes_per_s")
_MEGA = 1e6
_GIGA = 1e9
_BITS = 8


def text(value: Any) -> str:
    """A value as compact JSON."""
    return orjson.dumps(value).decode()


def number(value: float, digits: int = 0) -> int | float:
    """Rounded to ``digits`` decimals; an integer where nothing is left behind the point."""
    rounded = round(float(value), digits)
    return int(rounded) if rounded.is_integer() else rounded


def significant(value: float, digits: int = 3) -> int | float:
    """Rounded to ``digits`` significant digits."""
    return number(float(f"{value:.{digits}g}"), 12)


def gigabytes(value: float) -> str:
    """Bytes as ``12GB``."""
    return f"{number(value / _GIGA)}GB"


def megabytes(value: float) -> str:
    """Bytes as ``11094MB``."""
    return f"{number(value / _MEGA)}MB"


def rfc3339(ms: int) -> str:
    """Unix milliseconds as ``2023-11-14T22:13:20Z``."""
    return datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def gpu_static(gpus: Iterable[Gpu]) -> dict[str, Any]:
    """What a node's GPUs are. Where they differ, each kind is named, separated by a comma."""
    every = sorted(gpus, key=lambda gpu: gpu.index)
    sizes = [gigabytes(gpu.mem_total_bytes) for gpu in every if gpu.mem_total_bytes is not None]
    links = [f"{g.pcie_gen}x{g.pcie_width}" for g in every if None not in (g.pcie_gen, g.pcie_width)]
    value = {
        "count": len(every),
        "model": _each_once(gpu.model for gpu in every if gpu.model is not None),
        "mem_size": _each_once(sizes),
        "pcie_gen_width": _each_once(links),
    }
    return _present(value)


def gpu_now(gpu: Gpu) -> dict[str, Any]:
    """Memory and processes of one GPU at one tick."""
    used, total, processes = gpu.mem_used_bytes, gpu.mem_total_bytes, _known(gpu.processes)
    value = {
        "mem_used": None if used is None else gigabytes(used),
        "mem_free": None if used is None or total is None else gigabytes(max(total - used, 0)),
        "process_cnt": None if processes is None else len(processes),
        "pid_mem": None if processes is None else _pid_mem(processes),
    }
    return _present(value)


def _known(processes: tuple[GpuProcess, ...] | None) -> tuple[GpuProcess, ...] | None:
    """The processes, if all are known. A source that sees pods only, such as dcgm-exporter, gives PID 0."""
    if processes is None or any(one.pid == UNKNOWN_PID for one in processes):
        return None
    return processes


def _pid_mem(processes: Iterable[GpuProcess]) -> list[list[Any]]:
    known = [(one.mem_used_bytes, one.pid) for one in processes if one.mem_used_bytes is not None]
    largest = sorted(known, reverse=True)[:MOST_PROCESSES]
    return [[pid, megabytes(used)] for used, pid in sorted(largest, key=lambda pair: pair[1])]


def pod_values(record: PodPeaks) -> dict[str, Any]:
    """A pod's annotations by name, values not yet as text."""
    metrics = record.metrics
    value = {
        keys.GPU_UTIL: _per_process(record, "gpu_util_pct"),
        keys.GPU_MEM_UTIL: _per_process(record, "mem_copy_util_pct"),
        keys.GPU_ATTRIBUTION: _attribution(record),
        keys.MAX_CPU_UTIL: _largest(metrics, ("cpu_util_pct",), 1, 2),
        keys.MAX_CPU_MEM: _largest(metrics, ("mem_used_bytes",), 1 / _MEGA, 1),
        keys.MAX_NETWORK: _largest(metrics, _NETWORK, _BITS / _MEGA, 1),
        keys.MAX_DISK_IO: _largest(metrics, _DISK, 1 / _MEGA, 1),
    }
    found = _present(value)
    return found | {keys.UPDATED: rfc3339(record.last_ms)} if found else {}


def insight_values(insight: Insight) -> dict[str, Any]:
    """What a pod is and what holds it back, by name."""
    value = {keys.KIND: insight.kind, keys.BOTTLENECK: insight.bottleneck, keys.ADVICE: insight.advice}
    return _present(value)


def _per_process(record: PodPeaks, metric: str) -> dict[str, Any] | None:
    """By ``gpu_<index>_<pid>``; of a GPU whose processes are unknown, by ``gpu_<index>``."""
    found = [one for one in _maxima(record.processes or {}, metric) if one[0][-1] != UNKNOWN_PID]
    told = {where[0] for where, _ in found}
    found += [one for one in _maxima(record.gpus, metric) if one[0][0] not in told]
    largest = sorted(found, key=lambda pair: (-pair[1], pair[0]))[:MOST_PROCESSES]
    return {"gpu_" + "_".join(map(str, where)): number(most) for where, most in sorted(largest)} or None


def _attribution(record: PodPeaks) -> dict[str, str] | None:
    """Where the figures come from, by ``gpu_<index>``: an unknown one has none, and is not idle."""
    words = {scope.rpartition("/")[2]: word for scope, word in sorted((record.attribution or {}).items())}
    return {f"gpu_{index}": words[index] for index in sorted(words, key=int)[:MOST_PROCESSES]} or None


def _maxima(scopes: Mapping[str, Peaks], metric: str) -> list[tuple[tuple[int, ...], float]]:
    """((index, pid), maximum) of scopes such as ``<node>/<index>/<pid>``."""
    return [
        (tuple(int(part) for part in scope.split("/")[1:]), peaks[metric].max)
        for scope, peaks in scopes.items()
        if metric in peaks
    ]


def job_values(record: JobPeaks) -> dict[str, dict[str, Any]]:
    """What a job says about each of its pods, by pod name."""
    return {name: value for name in sorted(record.pods) if (value := _of_job(record.pods[name]))}


def job_summary(record: JobPeaks) -> dict[str, Any]:
    """What the pods of a job needed at most, whichever of them it was."""
    metrics = record.metrics
    value = {
        "pods": len(record.pods) + (record.pods_omitted or 0),
        "max_gpu_util": _largest(metrics, ("gpu_util_pct",), 1, 0),
        "max_gpu_mem_mb": _largest(metrics, ("gpu_mem_used_bytes",), 1 / _MEGA, 0),
        keys.MAX_CPU_UTIL: _largest(metrics, ("cpu_util_pct",), 1, 2),
        keys.MAX_CPU_MEM: _largest(metrics, ("mem_used_bytes",), 1 / _MEGA, 1),
        keys.MAX_NETWORK: _largest(metrics, _NETWORK, _BITS / _MEGA, 1),
        keys.MAX_DISK_IO: _largest(metrics, _DISK, 1 / _MEGA, 1),
    }
    return _present(value)


def job_ranks(record: JobPeaks) -> dict[str, tuple[float, ...]]:
    """By pod name, what says who needed more: GPU memory, GPU, memory, CPU. The larger, the more."""
    return {
        name: tuple(
            pod.metrics[metric].max if metric in pod.metrics else -1.0
            for metric in ("gpu_mem_used_bytes", "gpu_util_pct", "mem_used_bytes", "cpu_util_pct")
        )
        for name, pod in record.pods.items()
    }


def _of_job(pod: PodOfJob) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for scope in sorted(pod.gpus, key=_gpu_order):
        node, _, index = scope.rpartition("/")
        peaks = pod.gpus[scope]
        value[f"{node}-gpu-{index}_util"] = _largest(peaks, ("gpu_util_pct",), 1, 0)
        value[f"{node}-gpu-{index}_mem_mb"] = _largest(peaks, ("mem_used_bytes",), 1 / _MEGA, 0)
    if not pod.gpus:  # of a large job they are left out of the record; the pod's own figures are not
        value["gpu_util"] = _largest(pod.metrics, ("gpu_util_pct",), 1, 0)
        value["gpu_mem_mb"] = _largest(pod.metrics, ("gpu_mem_used_bytes",), 1 / _MEGA, 0)
    value |= {
        "cpu_util": _largest(pod.metrics, ("cpu_util_pct",), 1, 2),
        "cpu_mem_mb": _largest(pod.metrics, ("mem_used_bytes",), 1 / _MEGA, 1),
        "network_mbps": _largest(pod.metrics, _NETWORK, _BITS / _MEGA, 1),
        "disk_io": _largest(pod.metrics, _DISK, 1 / _MEGA, 1),
    }
    return _present(value)


def _gpu_order(scope: str) -> tuple[str, int]:
    node, _, index = scope.rpartition("/")
    return node, int(index)


def _largest(peaks: Peaks, metrics: tuple[str, ...], factor: float, digits: int) -> int | float | None:
    known = [peaks[metric].max for metric in metrics if metric in peaks]
    return number(max(known) * factor, digits) if known else None


def _each_once(values: Iterable[str]) -> str | None:
    return ", ".join(dict.fromkeys(values)) or None


def _present(value: dict[str, Any]) -> dict[str, Any]:
    return {name: one for name, one in value.items() if one is not None}
