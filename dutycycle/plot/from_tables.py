"""Reads tables for a picture: samples of GPUs and nodes, windows of all, cycles and forecasts."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from dutycycle.contract.catalogue import GPU_METRICS, HOST_METRICS
from dutycycle.contract.metering import with_means
from dutycycle.contract.records.derived import gpu_subject, node_subject
from dutycycle.contract.records.models import BUILT_IN
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import Gpu, NvmlSample
from dutycycle.plot.collected import CollectedSeries
from dutycycle.tables.columns import Row, table
from dutycycle.tables.reader import batches


def read_tables(folder: Path, collected: CollectedSeries, progress: Callable[[int], None]) -> None:
    """Take the tables of ``folder`` into ``collected``. Raises ``DutycycleError``."""
    count = 0
    for pod in pods_in(folder):
        collected.named(pod)
    of_gpus = ("node", "uuid", "ts", "interval_ms", "util_burst", "power_burst", *GPU_METRICS)
    of_hosts = ("node", "ts", *(f"host_{name}" for name in HOST_METRICS))
    for take, topic, columns in (
        (_take_gpu, "nvml-samples", of_gpus),
        (_take_host, "cgroup-samples", of_hosts),
        *((take, topic, columns) for topic, (take, columns) in DERIVED.items()),
    ):
        for rows in batches(folder, topic, columns):
            for row in rows:
                take(collected, row)
            count += len(rows)
            progress(count)


def pods_in(folder: Path) -> list[Pod]:
    """Return the pods that the tables name."""
    of_job = [column for column in table("pods").columns if column.startswith("job_")]
    columns = ("uid", "namespace", "name", "node", "phase", *of_job)
    pods = []
    for row in (row for rows in batches(folder, "pods", columns) for row in rows):
        job = {name.removeprefix("job_"): row.pop(name) for name in list(row) if name.startswith("job_")}
        pods.append(Pod(**row, job=None if job["uid"] is None else JobRef(**job)))
    return pods


def _take_gpu(collected: CollectedSeries, row: Row) -> None:
    if row["uuid"] is None:
        return
    subject = gpu_subject(row["node"], row["uuid"]).key
    if collected.is_subject(subject):
        # As of a trace, the means of the driver's samples in the tick are drawn.
        named = ("uuid", "gpu_util_pct", "power_w", "util_burst", "power_burst")
        (gpu,) = with_means(
            NvmlSample(
                node=row["node"], collector="", seq=0, ts_ms=_ms(row["ts"]), interval_ms=row["interval_ms"],
                gpus=(Gpu(index=0, **{name: row[name] for name in named}),),
            )
        ).gpus  # fmt: skip
        row |= {"gpu_util_pct": gpu.gpu_util_pct, "power_w": gpu.power_w}
    _sample(collected, subject, row, {name: name for name in GPU_METRICS})


def _take_host(collected: CollectedSeries, row: Row) -> None:
    _sample(collected, node_subject(row["node"]).key, row, {f"host_{name}": name for name in HOST_METRICS})


def _sample(collected: CollectedSeries, subject: str, row: Row, metrics: dict[str, str]) -> None:
    for column, metric in metrics.items():
        value = row[column]
        if value is not None and collected.is_wanted_there(subject, metric):
            collected.samples[subject, metric].add(_ms(row["ts"]), {"value": value})


def _take_window(collected: CollectedSeries, row: Row) -> None:
    figures = row.get("mean"), row.get("min"), row.get("max"), row.get("increase")
    collected.window((row["subject"], row["metric"]), row["size_ms"], _ms(row["start_ts"]), figures)


def _take_forecast(collected: CollectedSeries, row: Row) -> None:
    place = row["subject"], row["metric"]
    if collected.is_wanted_there(*place):
        for point in row.get("forecast") or ():
            collected.forecast(place, row.get("model") or BUILT_IN, _ms(row["ts"]), point)


def _take_cycle(collected: CollectedSeries, row: Row) -> None:
    if row.get("metric") is not None and collected.is_subject(row["subject"]):
        figures = {name: row.get(name) for name in ("cyclic", "period_s", "confidence", "others")}
        figures["since_ms"] = None if row.get("since_ts") is None else _ms(row["since_ts"])
        known = {name: value for name, value in figures.items() if value is not None}
        collected.cycles[row["subject"]].append({"ts_ms": _ms(row["ts"]), "metrics": {row["metric"]: known}})


DERIVED: dict[str, tuple[Callable[[CollectedSeries, Row], None], tuple[str, ...]]] = {
    "window-aggregates": (
        _take_window, ("subject", "metric", "size_ms", "start_ts", "mean", "min", "max", "increase")
    ),
    "trends": (_take_forecast, ("subject", "metric", "ts", "forecast")),
    "model-forecasts": (_take_forecast, ("subject", "metric", "ts", "forecast", "model")),
    "cycles": (
        _take_cycle,
        ("subject", "metric", "ts", "cyclic", "period_s", "confidence", "since_ts", "others"),
    ),
}  # fmt: skip
"""By topic what takes a row of its table, of a file or made of a record of a trace; and the columns that it
looks at."""


def _ms(moment: datetime | int) -> int:
    """Return Unix milliseconds, which the row of a record has already."""
    return moment if isinstance(moment, int) else round(moment.timestamp() * 1000)
