"""Writes records into SQL from within the process: what ``dutycycle replay --records`` uses."""

import time
from types import TracebackType

from dutycycle.contract.codec import decode
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.topics import TOPICS as CONTRACT
from sinks.records.merge import merge
from sinks.records.prices import PriceList
from sinks.records.rows import TOPICS, Record, SqlRow, rows_of, table_and_key, until_now
from sinks.records.store import RecordsAwayError, RecordsStore, RefusedRow

_SHOWN = 3


class RecordsLostError(DutycycleError):
    """Says that some records could not be kept, because of what is in them; all others were."""


class RecordsWriter:
    """Buffers records and writes what is known of each pod and job, and of each hour; a context manager.

    Memory is bounded by ``batch`` rows. Entering raises ``RecordsRefusedError``; a write may raise
    ``RecordsAwayError``, with the buffer kept; leaving raises ``RecordsLostError`` if there were records
    that no database can hold. A new file that had no room is taken away.
    """

    def __init__(self, url: str, *, batch: int = 500, prices: PriceList | None = None) -> None:
        self._store = RecordsStore(url, prices=prices)
        self._batch = batch
        self._rows: dict[tuple[str, tuple[str, ...]], SqlRow] = {}
        self.refused: list[RefusedRow] = []
        """What could not be kept, and why."""

    def __enter__(self) -> "RecordsWriter":
        self._store.open()
        return self

    def write(self, topic: str, payload: bytes | None) -> None:
        """Take a record; ``topic`` is without prefix. Other topics and tombstones are passed over.

        Raises ``DecodeError`` for bytes that are no record of their topic.
        """
        if payload is None or topic not in TOPICS:
            return
        record: Record = decode(CONTRACT[topic].record, payload, topic)
        try:
            rows = rows_of(until_now(record, round(1000 * time.time())))
        except ValueError as error:
            self.refused.append(RefusedRow(*table_and_key(record), str(error)))
            return
        for row in rows:
            key = row.table, row.key
            self._rows[key] = merge(self._rows[key], row) if key in self._rows else row
        if len(self._rows) >= self._batch:
            self.flush()

    def flush(self) -> None:
        """Write what is buffered, in one transaction."""
        self.refused += self._store.put(list(self._rows.values()))
        self._rows.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
        except RecordsAwayError as away:
            error = away
            raise
        finally:
            self._store.close()
            if isinstance(error, RecordsAwayError):  # of a command, which nobody goes on with
                self._store.discard_new_file(str(error))
        if kind is None and self.refused:
            shown = "; ".join(
                f"{refusal.table} {refusal.key}: {refusal.reason}" for refusal in self.refused[:_SHOWN]
            )
            raise RecordsLostError(f"{len(self.refused)} peak records could not be kept: {shown}")
