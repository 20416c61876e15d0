"""Makes the values of our annotations from records. Pure. What is absent in the record is absent in the
value.

A number or a text is written as it is, so that ``kubectl get`` can show it in a column; all else is JSON.

Units are decimal: GB is 10⁹ bytes, MB 10⁶, and Mbit/s 10⁶ bits. Network and disk are the busier of the two
directions: of the two together no maximum is known.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from dutycycle.contract.catalogue import CATALOGUE, Subject
from dutycycle.contract.records.derived import Peaks, PodPeaks
from dutycycle.contract.records.parts import PodTrend
from dutycycle.contract.units import rfc3339
from sinks.annotations.core import keys

MEGA = 1e6
_GIGA = 1e9
UNKNOWN_PID = 0
"""No process has this PID: whoever gives it does not know the processes."""
MOST_PROCESSES = 64
"""In one value: those with the most; a value is meant to be short."""


def text(value: Any) -> str:
    """Return a text as it is, any other value as compact JSON."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def number(value: float, digits: int = 0) -> int | float:
    """Round to ``digits`` decimals; an integer where nothing is left behind the point."""
    rounded = round(float(value), digits)
    return int(rounded) if rounded.is_integer() else rounded


def significant(value: float) -> int | float:
    """Round to three significant digits."""
    return number(float(f"{value:.3g}"), 12)


def gigabytes(value: float) -> str:
    """Return bytes as ``9.5GB`` or ``12GB``."""
    return f"{number(value / _GIGA, 1)}GB"


def maxima(peaks: Peaks, subject: Subject, prefix: str = "max_") -> dict[str, int | float]:
    """Give the maxima of a pod or job that the catalogue wants on a ``subject``, by ``prefix`` and key."""
    largest: dict[str, int | float] = {}
    for row in CATALOGUE:
        annotation = row.annotation
        if annotation is None or subject not in annotation.on or row.field not in peaks:
            continue
        value = number(peaks[row.field].max * annotation.factor, annotation.digits)
        largest[prefix + annotation.key] = max(value, largest.get(prefix + annotation.key, value))
    return largest


def p95(peaks: Peaks, metric: str) -> int | float | None:
    p95 = peaks[metric].p95 if metric in peaks else None
    return None if p95 is None else number(p95, 2)


def plain_figures(peaks: Peaks) -> dict[str, Any]:
    """Return the plain values of a pod or job, by name."""
    util, memory = peaks.get("gpu_util_pct"), peaks.get("gpu_mem_used_bytes")
    value = {
        keys.GPU_UTIL_MAX: None if util is None else number(util.max),
        keys.GPU_UTIL_MEAN: None if util is None else number(util.mean),
        keys.GPU_UTIL_P95: p95(peaks, "gpu_util_pct"),
        keys.CPU_UTIL_P95: p95(peaks, "cpu_util_pct"),
        keys.GPU_MEM_MAX: None if memory is None else number(memory.max / MEGA),
    }
    return measured(value)


def pod_values(record: PodPeaks) -> dict[str, Any]:
    """Return a pod's annotations by name, values not yet as text."""
    metrics = record.metrics
    untouched_s = (record.totals or {}).get("gpu_untouched_s")
    # Where the figures come from, by gpu_<index>: an unknown one has none, and is not idle
    origins = {
        scope.rpartition("/")[2]: origin for scope, origin in sorted((record.attribution or {}).items())
    }
    attribution = {
        f"gpu_{index}": origins[index] for index in sorted(origins, key=int)[:MOST_PROCESSES]
    } or None
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


_FORECAST = {
    "gpu_util_pct": ("gpu_util_pct", 1.0),
    "gpu_mem_used_bytes": ("gpu_mem_used_mb", 1 / MEGA),
    "mem_used_bytes": ("mem_used_mb", 1 / MEGA),
}
"""What is said of the forecasts: of a metric its name there, and the factor to its unit."""


def level_forecast(trends: Mapping[str, PodTrend]) -> dict[str, dict[str, int | float]] | None:
    """Give the values that are expected, by metric and how far ahead: ``{"gpu_util_pct": {"300s": 71}}``."""
    known = {
        metric: metric_trend for trend in trends.values() for metric, metric_trend in trend.metrics.items()
    }
    given = {
        name: {f"{point.horizon_s:g}s": number(point.value * factor) for point in known[metric].forecast}
        for metric, (name, factor) in _FORECAST.items()
        if metric in known and known[metric].forecast
    }
    return given or None


def each_once(values: Iterable[str]) -> str | None:
    return ", ".join(dict.fromkeys(values)) or None


def measured(value: dict[str, Any]) -> dict[str, Any]:
    return {name: part for name, part in value.items() if part is not None}
