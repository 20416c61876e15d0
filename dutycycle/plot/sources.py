"""Finds what a picture is made of, traces and folders of tables, and whom a name means in them; reads
samples, windows, cycles and forecasts there."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from dutycycle.contract.catalogue import GPU_METRICS, HOST_METRICS
from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.metering import with_means
from dutycycle.contract.records.derived import gpu_subject, node_subject
from dutycycle.contract.records.models import BUILT_IN
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import Gpu, NvmlSample
from dutycycle.contract.topics import TOPICS
from dutycycle.plot.collected import KINDS, CollectedSeries, Wanted
from dutycycle.run.folder import TRACE
from dutycycle.tables.columns import Row, table
from dutycycle.tables.reader import batches, has_tables
from dutycycle.traces.replay import DERIVED
from dutycycle.traces.samples import TraceSamples
from dutycycle.traces.subject import subject_of
from dutycycle.traces.ticks import SampleReader, subject_key
from streams.operators.columns.arrays import Bools
from streams.operators.columns.tick import Layout

_SAMPLES = ("nvml-samples", "cgroup-samples", "cuda-samples")
_TOLD = 1000
_Place = tuple[str, str]


def read_tables(folder: Path, collected: CollectedSeries, progress: Callable[[int], None]) -> None:
    """Take the tables of ``folder`` into ``collected``. Raises ``DutycycleError``."""
    count = 0
    for pod in pods_in(folder):
        collected.named(pod)
    of_gpus = ("node", "uuid", "ts", "interval_ms", "util_burst", "power_burst", *GPU_METRICS)
    metrics_of_hosts = {f"host_{name}": name for name in HOST_METRICS}

    def take_host(collected: CollectedSeries, row: Row) -> None:
        _sample(collected, node_subject(row["node"]).key, row, metrics_of_hosts)

    for take, topic, columns in (
        (_take_gpu, "nvml-samples", of_gpus),
        (take_host, "cgroup-samples", ("node", "ts", *metrics_of_hosts)),
        *((take, topic, columns) for topic, (take, columns) in _OF_TABLES.items()),
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


_OF_TABLES: dict[str, tuple[Callable[[CollectedSeries, Row], None], tuple[str, ...]]] = {
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


def read_traces(
    traces: Sequence[str], prefix: str, collected: CollectedSeries, progress: Callable[[int], None]
) -> int:
    """Take all of ``traces`` into ``collected``. Returns how many records could not be used. Raises
    ``TraceError``."""
    reader, unusable = _Reader(collected), 0
    for number, record in enumerate(TraceSamples(traces, prefix, ("pods", *_SAMPLES, *_OF_TABLES))):
        try:
            reader.take(record)
        except DecodeError:
            unusable += 1
        if number % _TOLD == 0:
            progress(number)
    reader.close()
    return unusable


def pods_of(traces: Sequence[str], prefix: str, progress: Callable[[int], None]) -> Collection[Pod]:
    """Return the pods that traces name, each as it was named last. Raises ``TraceError``."""
    pod_by_uid: dict[str, Pod] = {}
    records = TraceSamples(traces, prefix, ("pods",))
    for record in records:
        try:
            if record.value is not None:
                pod = decode(Pod, record.value, "pods")
                pod_by_uid[pod.uid] = pod
        except DecodeError:  # reading for the picture counts it
            continue
        progress(records.tally.total())
    return pod_by_uid.values()


@dataclass(slots=True)
class _Columns:
    """Holds the columns of a layout: their series, those that are wanted, and which were measured at all."""

    layout: Layout
    places: list[_Place]
    wanted: list[tuple[int, _Place]]
    measured: Bools


class _Reader:
    """Takes one record after the other."""

    def __init__(self, collected: CollectedSeries) -> None:
        self._collected = collected
        self._samples = SampleReader()
        self._columns: dict[tuple[str, str], _Columns] = {}

    def take(self, record: ConsumerRecord) -> None:
        """Raises ``DecodeError`` for a derived record or a pod that cannot be read."""
        if record.value is None:
            return
        if record.topic in _SAMPLES:
            for tick in self._samples.read(record):
                node, topic = record.key or "", record.topic
                columns = self._columns.get((node, topic))
                if columns is None or columns.layout is not tick.layout:  # a node's stays the same for long
                    self._note(columns)
                    places = [(subject_key(node, column), column.metric) for column in tick.layout.series]
                    wanted = [
                        (column, place)
                        for column, place in enumerate(places)
                        if self._collected.is_wanted(*place)
                    ]
                    measured = np.zeros(len(places), bool)
                    columns = self._columns[node, topic] = _Columns(tick.layout, places, wanted, measured)
                columns.measured |= np.isfinite(tick.values)
                for column, place in columns.wanted:
                    value = float(tick.values[column])
                    if value == value:
                        self._collected.samples[place].add(tick.ts_ms, {"value": value})
            return
        kind: type[Any] = TOPICS[record.topic].record
        decoded = decode(kind, record.value, record.topic)
        if isinstance(decoded, Pod):
            self._collected.named(decoded)
            return
        take, _ = _OF_TABLES[record.topic]
        for row in table(record.topic).rows(decoded, record.ts_ms):
            take(self._collected, row)

    def close(self) -> None:
        """Note the series of all layouts, when all records were read."""
        for columns in self._columns.values():
            self._note(columns)

    def _note(self, columns: "_Columns | None") -> None:
        """Note the series of which anything was measured: of the others only the column is there."""
        if columns is not None:
            for place, measured in zip(columns.places, columns.measured.tolist(), strict=True):
                if measured:
                    self._collected.note(*place)


@dataclass(frozen=True, slots=True)
class Sources:
    """Lists files of traces, and folders of tables."""

    traces: list[str]
    tables: list[Path]


def sources_of(paths: Sequence[str]) -> Sources:
    """Sorts traces from folders: a folder holds tables, or the traces of a run. Raises ``DutycycleError``."""
    sources = Sources([], [])
    for path in paths:
        folder = Path(path)
        if path != "-" and not folder.exists():
            raise DutycycleError(f"{path}: No such file or directory")
        if not folder.is_dir():
            sources.traces.append(path)
        elif has_tables(folder):
            sources.tables.append(folder)
        else:
            # What ``replay --out DIR/`` or ``run`` wrote there
            whole = [folder / name for name in (DERIVED, TRACE) if (folder / name).is_file()]
            traces = whole[:1] or sorted(folder.glob(f"runs/*/{DERIVED}"))
            if len(traces) > 1:
                names = ", ".join(str(run.parent) for run in traces[:4])
                raise DutycycleError(
                    f"{folder}: has {len(traces)} runs: give the folder of one, such as {names}"
                )
            if not traces:
                raise DutycycleError(
                    f"{folder}: has neither tables (topic=…) nor a run of replay --out {folder}/"
                )
            sources.traces.append(str(traces[0]))
    return sources


def read(
    sources: Sources, wanted: Wanted, prefix: str, progress: Callable[[int], None] = lambda _: None
) -> tuple[CollectedSeries, int]:
    """Return what is in them, and how many records could not be used. Raises ``DutycycleError``.

    A wanted subject is a key, or the name of a job, which stands for its pods, or of a pod. A job or pod may
    be named after its samples, so that the traces are read for the names first.
    """
    keys = [subject for subject in wanted.subjects if subject.startswith(KINDS) or "*" in subject]
    names = [subject for subject in wanted.subjects if subject not in keys]
    pods: list[Pod] = []
    if names:
        if "-" in sources.traces:
            raise DutycycleError(
                f"no subject {names[0]}: standard input is read once: give a key, such as pod/UID"
            )
        pods += pods_of(sources.traces, prefix, progress)
        pods += [pod for folder in sources.tables for pod in pods_in(folder)]
        if not pods:
            raise DutycycleError(
                f"no subject {names[0]}: no pod is named here; keys begin with {', '.join(KINDS)}"
            )
    for name in names:
        chosen = subject_of(pods, job=name, pod=name, where="what was read")
        keys += [f"pod/{pod.uid}" for pod in chosen.pods]
    collected = CollectedSeries(replace(wanted, subjects=keys))
    unusable = read_traces(sources.traces, prefix, collected, progress)
    for folder in sources.tables:
        read_tables(folder, collected, progress)
    return collected, unusable
