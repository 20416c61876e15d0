"""Writes peak records into SQL from within the process: what ``dutycycle replay --records`` uses."""

from types import TracebackType

from contract.codec import decode
from contract.errors import DutycycleError
from contract.records.derived import JobPeaks, PodPeaks
from sinks.records.merge import joined
from sinks.records.rows import Row, job_row, pod_row
from sinks.records.store import RecordsStore, RefusedRow

TOPICS = ("pod-peaks", "job-peaks")
"""The topics whose records are kept, without prefix."""
_SHOWN = 3


class RecordsLostError(DutycycleError):
    """Some records could not be kept, because of what is in them; all others were."""


class RecordsWriter:
    """Buffers peak records and writes what is known of each pod and job; a context manager.

    Memory is bounded by ``batch`` rows. Entering raises ``RecordsRefusedError``; a write may raise
    ``RecordsAwayError``, with the buffer kept; leaving raises ``RecordsLostError`` if there were records
    that no database can hold.
    """

    def __init__(self, url: str, *, batch: int = 500) -> None:
        self._store = RecordsStore(url)
        self._batch = batch
        self._rows: list[Row] = []
        self.refused: list[RefusedRow] = []
        """What could not be kept, and why."""

    def __enter__(self) -> "RecordsWriter":
        self._store.open()
        return self

    def write(self, topic: str, payload: bytes | None) -> None:
        """Take a record; ``topic`` is without prefix. Other topics and tombstones are passed over.

        Raises ``DecodeError`` for bytes that are no record of their topic.
        """
        if payload is None:
            return
        if topic == "pod-peaks":
            self._take_pod(decode(PodPeaks, payload, topic))
        elif topic == "job-peaks":
            self._take_job(decode(JobPeaks, payload, topic))

    def flush(self) -> None:
        """Write what is buffered, in one transaction."""
        self.refused += self._store.put(self._rows)
        self._rows = []

    def _take_pod(self, record: PodPeaks) -> None:
        try:
            self._keep(pod_row(record))
        except ValueError as error:
            self.refused.append(RefusedRow("pod_peaks", record.pod.uid, str(error)))

    def _take_job(self, record: JobPeaks) -> None:
        try:
            self._keep(job_row(record))
        except ValueError as error:
            self.refused.append(RefusedRow("job_peaks", record.job.uid, str(error)))

    def _keep(self, row: Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= self._batch:
            self._rows = [row for rows in joined(self._rows).values() for row in rows]
            if len(self._rows) > self._batch // 2:
                self.flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self._store.close()
        if kind is None and self.refused:
            shown = "; ".join(f"{one.table} {one.key}: {one.reason}" for one in self.refused[:_SHOWN])
            raise RecordsLostError(f"{len(self.refused)} peak records could not be kept: {shown}")
