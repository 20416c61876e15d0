"""Makes the values of a pod's annotations: its peaks, and what is found about it. Pure."""

from collections.abc import Mapping
from typing import Any

from dutycycle.contract.records.derived import Peaks, PodPeaks
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
    peaks = [peak for peak in _maxima(record.processes or {}, metric) if peak[0][-1] != UNKNOWN_PID]
    of_processes = {where[0] for where, _ in peaks}
    peaks += [peak for peak in _maxima(record.gpus, metric) if peak[0][0] not in of_processes]
    largest = sorted(peaks, key=lambda pair: (-pair[1], pair[0]))[:MOST_PROCESSES]
    return {"gpu_" + "_".join(map(str, where)): number(most) for where, most in sorted(largest)} or None


def _maxima(scopes: Mapping[str, Peaks], metric: str) -> list[tuple[tuple[int, ...], float]]:
    """Return ((index, pid), maximum) of scopes such as ``<node>/<index>/<pid>``."""
    return [
        (tuple(int(part) for part in scope.split("/")[1:]), peaks[metric].max)
        for scope, peaks in scopes.items()
        if metric in peaks
    ]
