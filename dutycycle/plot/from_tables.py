"""Reads tables for a picture: samples of GPUs and nodes, windows of all, cycles and forecasts."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

from dutycycle.contract.catalogue import GPU_METRICS, HOST_METRICS
from dutycycle.contract.records.derived import gpu_subject, node_subject
from dutycycle.contract.records.models import BUILT_IN
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.plot.seen import Seen
from dutycycle.tables.columns import Row, table
from dutycycle.tables.reader import batches

_WINDOW = ("subject", "metric", "size_ms", "start_ts", "mean", "min", "max", "increase")
_FORECAST = ("subject", "metric", "ts", "forecast")
_CYCLE = ("subject", "metric", "ts", "cyclic", "period_s", "confidence", "since_ts", "others")


def read_tables(folder: Path, seen: Seen, progress: Callable[[int], None]) -> None:
    """Take the tables of ``folder`` into ``seen``. Raises ``DutycycleError``."""
    count = 0
    for pod in pods_in(folder):
        seen.named(pod)
    for take, rows in _parts(folder):
        for row in rows:
            take(seen, row)
        count += len(rows)
        progress(count)


def pods_in(folder: Path) -> list[Pod]:
    """Return the pods that the tables name."""
    of_job = [column for column in table("pods").columns if column.startswith("job_")]
    columns = ("uid", "namespace", "name", "node", "phase", *of_job)
    return [_pod(row) for rows in batches(folder, "pods", columns) for row in rows]


def _pod(row: Row) -> Pod:
    job = {name.removeprefix("job_"): row.pop(name) for name in list(row) if name.startswith("job_")}
    ref = None if job["uid"] is None else JobRef(**job)
    return Pod(**row, job=ref)


def _parts(folder: Path) -> Iterator[tuple[Callable[[Seen, Row], None], list[Row]]]:
    of_gpus = ("node", "uuid", "ts", *GPU_METRICS)
    of_hosts = ("node", "ts", *(f"host_{name}" for name in HOST_METRICS))
    for take, topic, columns in (
        (_gpu, "nvml-samples", of_gpus),
        (_host, "cgroup-samples", of_hosts),
        (_window, "window-aggregates", _WINDOW),
        (_trend, "trends", _FORECAST),
        (_model, "model-forecasts", (*_FORECAST, "model")),
        (_cycle, "cycles", _CYCLE),
    ):
        for rows in batches(folder, topic, columns):
            yield take, rows


def _gpu(seen: Seen, row: Row) -> None:
    if row["uuid"] is not None:
        _sample(seen, gpu_subject(row["node"], row["uuid"]).key, row, {name: name for name in GPU_METRICS})


def _host(seen: Seen, row: Row) -> None:
    _sample(seen, node_subject(row["node"]).key, row, {f"host_{name}": name for name in HOST_METRICS})


def _sample(seen: Seen, subject: str, row: Row, metrics: dict[str, str]) -> None:
    for column, metric in metrics.items():
        value = row[column]
        if value is not None and seen.is_wanted_there(subject, metric):
            seen.samples[subject, metric].add(_ms(row["ts"]), {"value": value})


def _window(seen: Seen, row: Row) -> None:
    place = row["subject"], row["metric"]
    figures = row["mean"], row["min"], row["max"], row["increase"]
    seen.window(place, row["size_ms"], _ms(row["start_ts"]), figures)


def _trend(seen: Seen, row: Row) -> None:
    _model(seen, {**row, "model": BUILT_IN})


def _model(seen: Seen, row: Row) -> None:
    place = row["subject"], row["metric"]
    if seen.is_wanted_there(*place):
        for point in row["forecast"] or ():
            seen.forecast(place, row["model"], _ms(row["ts"]), point)


def _cycle(seen: Seen, row: Row) -> None:
    if row["metric"] is not None and seen.is_subject(row["subject"]):
        figures = {name: row[name] for name in ("cyclic", "period_s", "confidence", "others")}
        figures["since_ms"] = None if row["since_ts"] is None else _ms(row["since_ts"])
        known = {name: value for name, value in figures.items() if value is not None}
        seen.cycles[row["subject"]].append({"ts_ms": _ms(row["ts"]), "metrics": {row["metric"]: known}})


def _ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
