"""Holds the sink that keeps peaks, usage and insights in SQL: batched, tried again while the database is
away."""

import asyncio
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.telemetry.events import WRITE_REJECTED, WRITE_RETRIED, Telemetry
from sinks.base import PendingOffsets
from sinks.deadletters import DeadLetters
from sinks.events import SINK_AWAY
from sinks.metrics import count_writes
from sinks.records.merge import merge
from sinks.records.rows import HOUR_TABLE, TOPICS, SqlRow, rows_of, until_now
from sinks.records.store import RecordsAwayError, RecordsStore
from sinks.thread import in_thread

_BATCH = 500
_WAIT_S = 0.2
_DRAIN_S = 5.0
_Key = tuple[str, tuple[str, ...]]


class RecordsSink:
    """Holds one row for each pod and job until it is written, at most ``most_rows``: then reading waits.

    A batch is written when it has 500 rows, or 0.2 s after its first. Without an answer in ``timeout_s`` it
    is tried again on a new connection.
    """

    name = "records"
    topics: tuple[str, ...] = TOPICS

    def __init__(
        self,
        store: RecordsStore,
        letters: DeadLetters,
        telemetry: Telemetry,
        *,
        most_rows: int = 20_000,
        timeout_s: float = 45.0,
    ) -> None:
        self._store = store
        self._letters = letters
        self._telemetry = telemetry
        self._most_rows = most_rows
        self._timeout_s = timeout_s
        self._rows: dict[_Key, tuple[SqlRow, ConsumerRecord]] = {}
        self._waiting = PendingOffsets()
        self._in_flight = PendingOffsets()
        self._generation = 0
        self._rolled_up_at = ""
        self._writing = asyncio.Lock()
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    def wants(self, origin: ConsumerRecord) -> bool:
        """Take every record; a tombstone takes nothing away from SQL."""
        return origin.value is not None

    def take(self, origin: ConsumerRecord, record: Any) -> None:
        """Hold a record unless one that says all of it is held."""
        rows = rows_of(until_now(record, round(1000 * time.time())))
        self._waiting.add(origin.topic_partition, origin.offset)
        self._keep((row, origin) for row in rows)
        self._some.set()
        if len(self._rows) >= _BATCH:
            self._full.set()
        if len(self._rows) >= self._most_rows:
            self._room.clear()

    async def room(self) -> None:
        """Return when fewer than ``most_rows`` wait."""
        await self._room.wait()

    def pending_offsets(self) -> PendingOffsets:
        """Return the records whose rows wait or are being written."""
        every = PendingOffsets()
        every.merge(self._waiting)
        every.merge(self._in_flight)
        return every

    @property
    def pending(self) -> int:
        """Return how many rows wait to be written."""
        return len(self._rows)

    def forget(self) -> None:
        """Hold nothing any more."""
        self._generation += 1
        self._rows.clear()
        self._waiting = PendingOffsets()
        self._in_flight = PendingOffsets()
        self._room.set()

    async def run(self) -> None:
        """Write batch after batch, with growing pauses while the database is away."""
        backoff = Backoff()
        while True:
            await self._some.wait()
            with suppress(TimeoutError):
                async with asyncio.timeout(_WAIT_S):
                    await self._full.wait()
            if await self._write_all():
                backoff.reset()
                self._telemetry.clear_condition(SINK_AWAY, self.name, f"{self._store.name} is written again")
            else:
                await asyncio.sleep(backoff.next_s())

    async def drain(self) -> None:
        """Write what waits, once; if that fails or takes over 5 s, whoever reads next writes it."""
        try:
            async with asyncio.timeout(_DRAIN_S):
                await self._write_all()
        except TimeoutError:
            self._telemetry.emit(WRITE_RETRIED, "not done at the end", sink=self.name, reason="timeout")

    async def close(self) -> None:
        """Give the connections back."""
        self._store.close()

    async def _write_all(self) -> bool:
        async with self._writing:
            while self._rows:
                if not await self._write_batch():
                    return False
            self._some.clear()
            return True

    async def _write_batch(self) -> bool:
        """Tell whether the next rows are written, or refused for good and among the dead letters."""
        rows, self._rows = list(self._rows.values()), {}
        offsets, self._in_flight, self._waiting = self._waiting, self._waiting, PendingOffsets()
        generation = self._generation
        self._full.clear()
        self._room.set()
        try:
            async with asyncio.timeout(self._timeout_s):
                refused = await in_thread(lambda: self._store.put([row for row, _ in rows]))
        except (RecordsAwayError, TimeoutError) as error:
            reason = str(error)
            if isinstance(error, TimeoutError):
                self._store.close()  # the connection stays with its thread; the next try makes a new one
                reason = f"{self._store.name}: no answer within {self._timeout_s:g} s"
            self._telemetry.emit(WRITE_RETRIED, reason, sink=self.name, reason="away")
            detail = f"cannot keep peak records in {reason}; {self._store.find_remedy(reason)}; trying again"
            self._telemetry.raise_condition(SINK_AWAY, self.name, detail)
            if generation == self._generation:
                newer, self._rows = self._rows, {}
                self._keep([*rows, *newer.values()])
                self._waiting.merge(offsets)
                self._in_flight = PendingOffsets()
                if len(self._rows) >= self._most_rows:
                    self._room.clear()
            return False
        count_writes(self._telemetry, self.name, len(rows) - len(refused))
        if hours := [row.values["hour"] for row, _ in rows if row.table == HOUR_TABLE]:
            # Once an hour of the ledger; if the database goes away in between, with the next one.
            hour = max(hours)
            if hour > self._rolled_up_at:
                with suppress(RecordsAwayError):
                    await in_thread(self._store.roll_up)
                self._rolled_up_at = hour
        origins = {(row.table, row.name): origin for row, origin in rows}
        for refusal in refused:
            self._telemetry.emit(WRITE_REJECTED, refusal.reason, sink=self.name, reason="value")
            origin = origins[refusal.table, refusal.key]
            if not await self._letters.send(origin, Reason.REJECTED, refusal.reason):
                await asyncio.Event().wait()  # for ever: the worker ends, and nothing of this is done
        if generation == self._generation:
            self._in_flight = PendingOffsets()
        return True

    def _keep(self, rows: Iterable[tuple[SqlRow, ConsumerRecord]]) -> None:
        for row, origin in rows:
            key = row.table, row.key
            self._rows[key] = (merge(self._rows[key][0], row) if key in self._rows else row), origin
