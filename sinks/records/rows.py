"""Turns records into rows: plain columns that SQL can filter and plot; of a peak record, the record itself as
JSON.

Pure. The columns ``max_<metric>``, ``mean_<metric>`` and ``p95_<metric>`` are NULL for what was not measured,
never 0. A moment is text here (``moment``), and a timestamp in PostgreSQL.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from msgspec.structs import replace

from dutycycle.contract.catalogue import NODE_PEAK_COLUMNS, P95_METRICS, PEAK_COLUMNS
from dutycycle.contract.codec import encode
from dutycycle.contract.records.derived import JobPeaks, NodePeaks, Peaks, PodPeaks
from dutycycle.contract.records.health import GpuEvent, HitPod
from dutycycle.contract.records.hours import UsageHour
from dutycycle.contract.records.parts import JobInsight, PodInsight

TOPICS = ("pod-peaks", "job-peaks", "node-peaks", "usage", "pod-insights", "job-insights", "gpu-events")
"""The topics whose records are kept, without prefix."""
Record = PodPeaks | JobPeaks | NodePeaks | UsageHour | PodInsight | JobInsight | GpuEvent
POD_TABLE = "pod_peaks"
JOB_TABLE = "job_peaks"
NODE_TABLE = "node_peaks"
HOUR_TABLE = "usage_hours"
INSIGHT_TABLE = "insights"
EVENT_TABLE = "gpu_events"
KEYS = {
    POD_TABLE: ("pod_uid",), JOB_TABLE: ("job_uid",), HOUR_TABLE: ("hour", "node", "pod_uid", "gpu"),
    NODE_TABLE: ("day", "node", "source"), INSIGHT_TABLE: ("subject",),
    EVENT_TABLE: ("gpu", "at", "event", "pod_uid"),
}  # fmt: skip
"""The primary key of each table."""
USED = (
    "gpu_s", "gpu_known_s", "gpu_busy_s", "gpu_sm_s", "gpu_sm_known_s", "gpu_tensor_s", "gpu_tensor_known_s",
    "gpu_working_s", "gpu_working_known_s", "gpu_untouched_s", "energy_j", "pod_s", "cpu_s", "mem_byte_s",
)  # fmt: skip
"""The columns that say what was used in an hour or a day, of a GPU or a pod."""
_OF_GPU = tuple(name.removeprefix("gpu_") for name in USED if name.startswith("gpu_") and name != "gpu_s")
"""The fields of a ``GpuHour`` that have such a column, with that before their name."""
COSTS = ("gpu_cost", "cpu_cost", "energy_cost")
_IS_ENERGY_KNOWN = "gpu_s > 0 AND energy_j IS NOT NULL"
PRICED = {
    "gpu_priced_s": "CASE WHEN gpu_cost IS NOT NULL THEN gpu_s END",
    "energy_priced_s": "CASE WHEN energy_cost IS NOT NULL THEN gpu_s END",
}
"""The columns that say how much GPU time has a price, and of how much the energy has one; with their SQL."""
PARTS = PRICED | {
    "energy_known_s": f"CASE WHEN {_IS_ENERGY_KNOWN} THEN gpu_s END",
    "energy_known_j": f"CASE WHEN {_IS_ENERGY_KNOWN} THEN energy_j END",
}
"""The columns that say of how much GPU time costs and energy are: ``PRICED``, that of which energy is known,
and that energy, without what was used in a gap; with SQL for an hour, and for a day without its hours."""
COUNTS = {POD_TABLE: "samples", JOB_TABLE: "pods"}
"""The column that says how much a record is made of."""
MAXIMA = tuple(f"max_{metric}" for metric in PEAK_COLUMNS)
Figures = tuple[tuple[str, str], ...]


def _figures(metrics: tuple[str, ...]) -> Figures:
    return tuple(
        (figure, metric)
        for metric in metrics
        for figure in ("max", "mean", *(["p95"] if metric in P95_METRICS else []))
    )


FIGURES, NODE_FIGURES = _figures(PEAK_COLUMNS), _figures(NODE_PEAK_COLUMNS)
"""The columns of metrics, ``<figure>_<metric>``; those of nodes."""
UNNAMED = "Unknown"
"""The phase of a pod whose name is not known."""
_NOBODY = HitPod(uid="")
_LARGEST = 2**63 - 1
DAY_MS = 86_400_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(ms: int) -> str:
    """Return Unix milliseconds as ISO 8601 in UTC, as text in the order of time. Raises ``ValueError``."""
    try:
        return written(_EPOCH + timedelta(milliseconds=ms))
    except OverflowError:
        raise ValueError(f"{ms} ms is past the last moment of a database") from None


def written(at: datetime) -> str:
    """Return a moment as text: ``2026-11-22T16:00:00.000Z``."""
    return f"{at.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


@dataclass(frozen=True, slots=True)
class SqlRow:
    """Holds one row of ``table``, by column."""

    table: str
    values: dict[str, Any]

    @property
    def key(self) -> tuple[str, ...]:
        """Return its primary key."""
        return tuple(self.values[name] for name in KEYS[self.table])

    @property
    def name(self) -> str:
        """Return the key for people."""
        return "/".join(self.key)

    @property
    def named(self) -> bool:
        """Tell whether its name is known, which that of a pod may not be yet: its uid stands in for it."""
        values = self.values
        return self.table != POD_TABLE or (values["name"], values["phase"]) != (values["pod_uid"], UNNAMED)


def until_now(record: Record, now_ms: int) -> Record:
    """Return the record; that of a pod or job as seen until ``now_ms`` at most.

    A collector's clock in a wrong year gives it no years of life. A day is left to clocks that differ, and to
    runs that are simulated. Raises ``ValueError`` for usage of an hour later than that: what is kept of the
    ledger is seen from its newest hour, so all of it would be too old.
    """
    if isinstance(record, UsageHour) and record.hour_ms > now_ms + DAY_MS:
        raise ValueError(
            f"usage of {record.node} in an hour to come, {record.hour_ms} ms: its clock is ahead"
        )
    if not isinstance(record, PodPeaks | JobPeaks) or record.last_ms <= now_ms + DAY_MS:
        return record
    return replace(record, first_ms=min(record.first_ms, now_ms), last_ms=now_ms)


def usage_rows(record: UsageHour) -> Iterator[SqlRow]:
    """Yield a row for each pod on each GPU, and for each pod's CPU and memory, whose ``gpu`` is empty. What
    no pod had has an empty ``pod_uid``."""
    head: dict[str, Any] = dict.fromkeys(("gpu_model", "attribution", *USED))
    head |= {"hour": moment(record.hour_ms), "node": record.node, "until": moment(record.ts_ms)}
    for gpu in record.gpus:
        yield SqlRow(HOUR_TABLE, head | {
            "pod_uid": gpu.pod_uid or "", "gpu": gpu.gpu, "gpu_model": gpu.model,
            "attribution": gpu.attribution, "gpu_s": float(gpu.gpu_s), "energy_j": _float(gpu.energy_j),
            **{f"gpu_{name}": _float(getattr(gpu, name)) for name in _OF_GPU},
        })  # fmt: skip
    for pod in record.pods:
        yield SqlRow(HOUR_TABLE, head | {
            "pod_uid": pod.pod_uid or "", "gpu": "", "pod_s": float(pod.seconds), "cpu_s": _float(pod.cpu_s),
            "mem_byte_s": _float(pod.mem_byte_s),
        })  # fmt: skip


def event_rows(record: GpuEvent) -> Iterator[SqlRow]:
    """Yield a row for each pod that used the GPU; one with an empty ``pod_uid`` if none did, or that is not
    known.

    What is no incident has none.
    """
    if record.kind == "state":
        return
    for pod in record.pods or (_NOBODY,):
        job = pod.job
        yield SqlRow(EVENT_TABLE, {
            "gpu": record.gpu, "at": moment(record.ts_ms),
            "event": "/".join(str(part) for part in (record.kind, record.code, record.mig)
                              if part is not None),
            "pod_uid": pod.uid, "node": record.node, "gpu_index": record.index, "kind": record.kind,
            "code": record.code, "count": record.count, "severity": record.severity, "name": record.name,
            "action": record.action, "inferred": bool(record.inferred), "mig": record.mig,
            "namespace": pod.namespace, "pod": pod.name, "job_uid": None if job is None else job.uid,
            "job": None if job is None else job.name, "job_kind": None if job is None else job.kind,
        })  # fmt: skip


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _at(ms: int | None) -> str | None:
    return None if ms is None else moment(ms)


def in_order(document: str) -> bytes:
    """Return the text of a document, its keys in order as the streams write them, and not as PostgreSQL
    does."""
    return orjson.dumps(orjson.loads(document), option=orjson.OPT_SORT_KEYS)


def insight_row(record: PodInsight | JobInsight) -> SqlRow:
    """Return what a pod or a job does and what holds it back."""
    insight, state = record.insight, record.state
    job = record.pod.job if isinstance(record, PodInsight) else record.job
    return SqlRow(INSIGHT_TABLE, {
        "subject": insight.subject.key,
        "pod_uid": record.pod.uid if isinstance(record, PodInsight) else None,
        "job_uid": job.uid if job is not None else None,
        "kind": insight.kind, "kind_confidence": float(insight.confidence),
        "bottleneck": insight.bottleneck, "bottleneck_confidence": float(insight.bottleneck_confidence),
        "period_s": _float(state.period_s) if state else None,
        "period_source": state.period_source if state else None,
        "cycle_steps": state.cycle_steps if state else None,
        "period_confidence": _float(state.confidence) if state else None,
        "steps_per_s": _float(state.steps_per_s) if state else None,
        "samples_per_s": _float(state.samples_per_s) if state else None,
        "mem_full_at": _at(state.mem_full_ms) if state else None,
        "gpu_mem_full_at": _at(state.gpu_mem_full_ms) if state else None,
        "idle_since": _at(state.idle_since_ms) if state else None,
        "since": moment(insight.since_ms), "at": moment(max(insight.ts_ms, state.seen_ms if state else 0)),
        "advice": insight.advice, "evidence": orjson.dumps(dict(insight.evidence)).decode(),
    })  # fmt: skip


def pod_row(record: PodPeaks) -> SqlRow:
    """Return the row of a pod; raises as ``row_of``."""
    pod = record.pod
    values = {
        "pod_uid": pod.uid,
        "namespace": pod.namespace,
        "name": pod.name,
        "node": pod.node,
        "phase": pod.phase,
        "job_uid": pod.job.uid if pod.job else None,
        "job_kind": pod.job.kind if pod.job else None,
        "job_name": pod.job.name if pod.job else None,
        "labels": orjson.dumps(dict(pod.labels or {})).decode(),
        "gpu_request": _float(pod.gpu_request),
        "cpu_request": _float(pod.cpu_request),
        "mem_request_bytes": _float(pod.mem_request_bytes),
        "first_at": moment(pod.first_seen_ms(record.first_ms)),
        "last_at": moment(record.last_ms),
        "samples": record.samples,
        "final": record.final,
        "gpus": len(record.gpus),
        "started_at": moment(started_ms(record)),
    }
    return _row(POD_TABLE, values, record.metrics, record)


def started_ms(record: PodPeaks) -> int:
    """Return when this incarnation of the pod's name began: its start, else its creation, else our first
    sample."""
    pod = record.pod
    return pod.started_ms or pod.created_ms or record.first_ms


def job_row(record: JobPeaks) -> SqlRow:
    """Return the row of a job; raises as ``row_of``."""
    job = record.job
    values = {
        "job_uid": job.uid,
        "namespace": record.namespace,
        "kind": job.kind,
        "api_version": job.api_version,
        "name": job.name,
        "first_at": moment(record.first_ms),
        "last_at": moment(record.last_ms),
        "final": record.final,
        "pods": record.pod_count,
        "gpus": len(record.known_gpus),
    }
    return _row(JOB_TABLE, values, record.metrics, record)


def node_row(record: NodePeaks) -> SqlRow:
    """Return the row of a node's day by one source; raises as ``row_of``."""
    values = {
        "day": moment(record.day_ms),
        "node": record.node,
        "source": record.source,
        "first_at": moment(record.first_ms),
        "last_at": moment(record.last_ms),
        "samples": record.samples,
        "gpus": len(record.gpus),
    }
    return _row(NODE_TABLE, values, record.metrics, record, NODE_FIGURES)


def _row(
    table: str,
    values: dict[str, Any],
    metrics: Peaks,
    record: PodPeaks | JobPeaks | NodePeaks,
    figures: Figures = FIGURES,
) -> SqlRow:
    for name, value in values.items():
        if type(value) is int and value > _LARGEST:
            raise ValueError(f"{name}: {value} is past the largest integer of a database")
    for figure, metric in figures:
        values[f"{figure}_{metric}"] = _float(getattr(metrics.get(metric), figure, None))
    values["record"] = encode(record).decode()
    return SqlRow(table, values)


_Rows = Callable[[Any], Iterable[SqlRow]]
_OF_RECORDS: dict[type[Any], tuple[_Rows, str, Callable[[Any], str]]] = {
    PodPeaks: (lambda record: [pod_row(record)], POD_TABLE, lambda record: record.pod.uid),
    JobPeaks: (lambda record: [job_row(record)], JOB_TABLE, lambda record: record.job.uid),
    NodePeaks: (lambda record: [node_row(record)], NODE_TABLE, lambda record: record.node),
    UsageHour: (usage_rows, HOUR_TABLE, lambda record: record.node),
    GpuEvent: (event_rows, EVENT_TABLE, lambda record: record.gpu),
    **dict.fromkeys(
        (PodInsight, JobInsight),
        (lambda record: [insight_row(record)], INSIGHT_TABLE, lambda record: record.insight.subject.key),
    ),
}
"""How rows are made of a record, of which table, and the key that a person knows it by."""


def rows_of(record: Record) -> list[SqlRow]:
    """Return the rows of a record. Raises ``ValueError`` for a value that no database can hold."""
    rows, _, _ = _OF_RECORDS[type(record)]
    return list(rows(record))


def table_and_key(record: Record) -> tuple[str, str]:
    """Return where the rows of a record that no database can hold would stand."""
    _, table, key = _OF_RECORDS[type(record)]
    return table, key(record)
