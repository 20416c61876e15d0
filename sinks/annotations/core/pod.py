"""Makes the values of a pod's annotations: its peaks, and what is found about it. Pure."""

from typing import Any

from dutycycle.contract.records.derived import PodPeaks
from dutycycle.contract.units import rfc3339
from sinks.annotations.core import keys
from sinks.annotations.core.values import (
    MOST_PROCESSES,
    UNKNOWN_PID,
    maxima,
    measured,
    number,
    plain_figures,
)


def pod_values(record: PodPeaks) -> dict[str, Any]:
    """Return a pod's annotations by name, values not yet as text."""
    metrics = record.metrics
    untouched_s = (record.totals or {}).get("gpu_untouched_s")
    # Where the figures come from, by gpu_<index>: an unknown one has none, and is not idle
    words = {scope.rpartition("/")[2]: word for scope, word in sorted((record.attribution or {}).items())}
    attribution = {f"gpu_{index}": words[index] for index in sorted(words, key=int)[:MOST_PROCESSES]} or None
    value = {
        keys.GPU_UNTOUCHED: None if untouched_s is None else number(untouched_s / 3600, 2),
        keys.GPU_UTIL: _per_process(record, "gpu_util_pct"),
        keys.GPU_MEM_UTIL: _per_process(record, "mem_copy_util_pct"),
        keys.GPU_ATTRIBUTION: attribution,
    }
    values = measured(value) | maxima(metrics, "pod") | plain_figures(metrics)
    return values | {keys.UPDATED: rfc3339(record.last_ms)} if values else {}


def _per_process(record: PodPeaks, metric: str) -> dict[str, Any] | None:
    """Return maxima by ``gpu_<index>_<pid>``; of a GPU whose processes are unknown, by ``gpu_<index>``."""
    peaks: list[tuple[tuple[int, ...], float]] = []
    for scope, of_process in (record.processes or {}).items():  # <node>/<index>/<pid>
        _, index, pid = scope.split("/")
        if metric in of_process and int(pid) != UNKNOWN_PID:
            peaks.append(((int(index), int(pid)), of_process[metric].max))
    with_processes = {where[0] for where, _ in peaks}
    for scope, of_gpu in record.gpus.items():
        index = scope.rpartition("/")[2]
        if metric in of_gpu and int(index) not in with_processes:
            peaks.append(((int(index),), of_gpu[metric].max))
    largest = sorted(peaks, key=lambda pair: (-pair[1], pair[0]))[:MOST_PROCESSES]
    return {"gpu_" + "_".join(map(str, where)): number(most) for where, most in sorted(largest)} or None
