"""Writes peak records into SQL from within the process: what ``dutycycle replay --records`` uses."""

from collections.abc import Callable
from types import TracebackType

from sinks.records_rows import Row, job_row, newest, pod_row
from sinks.records_store import RecordsStore, RefusedRow
from wire.codec import decode
from wire.derived import JobPeaks, PodPeaks

TOPICS = ("pod-peaks", "job-peaks")
"""The topics whose records are kept, without prefix."""


def row_of(topic: str, payload: bytes) -> Row:
    """The row of a record of ``topic``, one of ``TOPICS``.

    Raises ``DecodeError`` for bytes that are no such record, ``ValueError`` for one that SQL cannot hold.
    """
    if topic == "pod-peaks":
        return pod_row(decode(PodPeaks, payload, topic))
    return job_row(decode(JobPeaks, payload, topic))


class RecordsWriter:
    """Buffers peak records and writes the newest of each pod and job; a context manager.

    Memory is bounded by ``batch`` rows. Entering raises ``RecordsRefusedError``; a write may raise
    ``RecordsAwayError``, with the buffer kept. Rows that the database can never hold go to ``on_refused``.
    """

    def __init__(
        self, url: str, *, batch: int = 500, on_refused: Callable[[RefusedRow], None] | None = None
    ) -> None:
        self._store = RecordsStore(url)
        self._batch = batch
        self._on_refused = on_refused
        self._rows: list[Row] = []

    def __enter__(self) -> "RecordsWriter":
        self._store.open()
        return self

    def write(self, topic: str, payload: bytes | None) -> None:
        """Take a record; ``topic`` is without prefix. Other topics and tombstones are passed over."""
        if topic not in TOPICS or payload is None:
            return
        self._rows.append(row_of(topic, payload))
        if len(self._rows) >= self._batch:
            self._rows = newest(self._rows)
            if len(self._rows) > self._batch // 2:
                self.flush()

    def flush(self) -> None:
        """Write what is buffered, in one transaction."""
        refused = self._store.put(newest(self._rows))
        self._rows = []
        for one in refused:
            if self._on_refused is not None:
                self._on_refused(one)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self._store.close()
