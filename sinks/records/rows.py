"""A peak record as one row: plain columns that SQL can filter and plot, and the record itself as JSON.

Pure. The columns ``max_<metric>`` and ``mean_<metric>`` are NULL for what was not measured, never 0.
"""

from dataclasses import dataclass
from typing import Any

from contract.codec import encode
from contract.records.derived import JobPeaks, Peaks, PodPeaks

TOPICS = ("pod-peaks", "job-peaks")
"""The topics whose records are kept, without prefix."""
POD_TABLE = "pod_peaks"
JOB_TABLE = "job_peaks"
KEYS = {POD_TABLE: "pod_uid", JOB_TABLE: "job_uid"}
"""The primary key of each table."""
COUNTS = {POD_TABLE: "samples", JOB_TABLE: "pods"}
"""The column that says how much a record is made of."""
COLUMN_METRICS = (
    "gpu_util_pct",
    "mem_copy_util_pct",
    "gpu_mem_used_bytes",
    "cpu_util_pct",
    "cpu_throttled_pct",
    "mem_used_bytes",
    "io_read_bytes_per_s",
    "io_write_bytes_per_s",
    "net_rx_bytes_per_s",
    "net_tx_bytes_per_s",
)
"""The metrics that have columns of their own; every other one is in the JSON and in the views."""
MAXIMA = tuple(f"max_{metric}" for metric in COLUMN_METRICS)
UNNAMED = "Unknown"
"""The phase of a pod whose name is not known."""
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Row:
    """One row of ``table``, by column."""

    table: str
    values: dict[str, Any]

    @property
    def key(self) -> str:
        """Its primary key."""
        return str(self.values[KEYS[self.table]])

    @property
    def named(self) -> bool:
        """False for a pod whose name is not known yet: its uid stands in for it."""
        values = self.values
        return self.table != POD_TABLE or (values["name"], values["phase"]) != (values["pod_uid"], UNNAMED)


def row_of(record: PodPeaks | JobPeaks) -> Row:
    """The row of a pod or job. Raises ``ValueError`` for a value that no database can hold."""
    return pod_row(record) if isinstance(record, PodPeaks) else job_row(record)


def pod_row(record: PodPeaks) -> Row:
    """The row of a pod; raises as ``row_of``."""
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
        "first_ms": record.first_ms,
        "last_ms": record.last_ms,
        "samples": record.samples,
        "final": record.final,
        "gpus": len(record.gpus),
        "started_ms": started_ms(record),
    }
    return _row(POD_TABLE, values, record.metrics, record)


def started_ms(record: PodPeaks) -> int:
    """When this incarnation of the pod's name began: its start, else its creation, else our first sample."""
    pod = record.pod
    return pod.started_ms or pod.created_ms or record.first_ms


def job_row(record: JobPeaks) -> Row:
    """The row of a job; raises as ``row_of``."""
    job = record.job
    values = {
        "job_uid": job.uid,
        "namespace": record.namespace,
        "kind": job.kind,
        "api_version": job.api_version,
        "name": job.name,
        "first_ms": record.first_ms,
        "last_ms": record.last_ms,
        "final": record.final,
        "pods": len(record.pods) + (record.pods_omitted or 0),
    }
    return _row(JOB_TABLE, values, record.metrics, record)


def _row(table: str, values: dict[str, Any], metrics: Peaks, record: PodPeaks | JobPeaks) -> Row:
    for name, value in values.items():
        if type(value) is int and value > _LARGEST:
            raise ValueError(f"{name}: {value} is past the largest integer of a database")
    for metric in COLUMN_METRICS:
        peak = metrics.get(metric)
        values[f"max_{metric}"] = None if peak is None else float(peak.max)
        values[f"mean_{metric}"] = None if peak is None else float(peak.mean)
    values["record"] = encode(record).decode()
    return Row(table, values)
