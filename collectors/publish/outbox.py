"""Keeps what is waiting to be sent: one queue, its older part on disk, its newer part in memory.

Everything in the spool is older than everything in memory, and the batch that is being sent is older than
both or the head of the spool. So order holds whatever moves to disk, and whenever.
"""

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from collectors.publish.spool import Spool, SpoolError, SpoolWriteError, record_bytes
from collectors.publish.spool_file import is_damage
from dutycycle.contract.log import ProducerRecord
from dutycycle.telemetry.events import SPOOL_DROPPED, SPOOL_FAILED, SPOOLED, Telemetry

_R = TypeVar("_R")


@dataclass(frozen=True, slots=True)
class Batch:
    """Holds records that are being sent. ``through`` is the last one's id in the spool, None if it is not
    there."""

    records: tuple[ProducerRecord, ...]
    through: int | None


class Outbox:
    """Keeps a queue of records with one reader. ``put`` never waits; the disk is written in a thread of its
    own.

    All methods belong to one event loop.
    """

    def __init__(self, spool: Spool, telemetry: Telemetry, memory_bytes: int) -> None:
        self._spool = spool
        self._telemetry = telemetry
        self._most_bytes = memory_bytes
        self._memory: deque[ProducerRecord] = deque()
        self._memory_bytes = 0
        self._moving = 0
        self._in_flight: Batch | None = None
        self._disk = ThreadPoolExecutor(1, "spool")
        self.has_new = asyncio.Event()
        """Set when records were put since the last ``next_batch`` or ``move_to_disk``."""
        self._turn = asyncio.Lock()

    def __len__(self) -> int:
        """Return how many records wait: those being sent or written to disk are some of them, for a moment
        twice."""
        return len(self._memory) + self._moving + len(self._spool) + len(self._only_in_memory())

    @property
    def spooled(self) -> int:
        """Return how many records are on disk."""
        return len(self._spool)

    @property
    def spooled_bytes(self) -> int:
        """Return the bytes that they take there; 0 without any, although the file keeps some pages."""
        return self._spool.used_bytes if len(self._spool) else 0

    def put(self, records: Sequence[ProducerRecord]) -> None:
        """Queue records; past the bound of the memory its oldest are dropped and counted."""
        self._memory.extend(records)
        self._memory_bytes += sum(map(record_bytes, records))
        self._bound_memory()
        self.has_new.set()

    async def next_batch(self, most: int, most_bytes: int) -> Batch | None:
        """Return the oldest records, in flight until ``acknowledge`` or ``give_back``; None when nothing
        waits."""
        if not self._spool and not self._turn.locked():
            return self._next_in_memory(most, most_bytes)
        return await self._in_turn(self._next_batch(most, most_bytes))

    async def move_to_disk(self) -> None:
        """Put everything that is only in memory on disk, the batch in flight included."""
        await self._in_turn(self._move_to_disk())

    async def acknowledge(self) -> None:
        """Forget the batch, which was acknowledged by the broker."""
        if self._only_in_memory() and not self._turn.locked():
            self._in_flight = None
            return
        await self._in_turn(self._acknowledge())

    async def give_back(self) -> None:
        """Put the batch back, which was not sent: it is the oldest again."""
        # In turn as well: an append may be writing it at this moment, and then it is on disk.
        await self._in_turn(self._give_back())

    async def close(self) -> None:
        """Put what waits on disk, and close the spool."""
        await self._in_turn(self._close())

    async def _next_batch(self, most: int, most_bytes: int) -> Batch | None:
        self.has_new.clear()  # first: what is put while the disk reads sets it again
        if self._spool:
            known = self._spool.unreadable
            entries = await self._on_disk(lambda: self._spool.oldest(most, most_bytes))
            if broken := self._spool.unreadable - known:
                detail = f"{self._spool.folder}: could not be read back"
                self._telemetry.emit(SPOOL_DROPPED, detail, count=broken)
            if entries:
                self._in_flight = Batch(tuple(entry.record for entry in entries), entries[-1].id)
                return self._in_flight
        return self._next_in_memory(most, most_bytes)

    def _next_in_memory(self, most: int, most_bytes: int) -> Batch | None:
        self.has_new.clear()
        records: list[ProducerRecord] = []
        total = 0
        while self._memory and len(records) < most:
            size = record_bytes(self._memory[0])
            if records and total + size > most_bytes:
                break
            records.append(self._memory.popleft())
            total += size
        self._memory_bytes -= total
        if records:
            self._in_flight = Batch(tuple(records), None)
        return self._in_flight

    async def _move_to_disk(self) -> None:
        self.has_new.clear()
        in_flight = self._only_in_memory()
        waiting, self._memory, self._memory_bytes = self._memory, deque(), 0
        if not in_flight and not waiting:
            return
        through = (self._in_flight.through if self._in_flight else None) or 0
        records = [*in_flight, *waiting]  # what is being sent is older than all that waits
        self._moving = len(waiting)
        stored = await self._on_disk(lambda: self._spool.append(records, keep_through=through))
        self._moving = 0
        if stored is None:
            self._put_back(waiting)
            return
        # Only an append clears it: a full disk can still be read, and deletions may succeed.
        self._telemetry.clear_condition(SPOOL_FAILED, "disk", f"{self._spool.folder} takes records again")
        if in_flight:
            self._in_flight = Batch(in_flight, stored.first_id + len(in_flight) - 1)
        self._telemetry.emit(SPOOLED, count=len(records))
        if stored.dropped:
            self._telemetry.emit(SPOOL_DROPPED, f"{self._spool.folder} is full", count=stored.dropped)

    async def _acknowledge(self) -> None:
        in_flight, self._in_flight = self._in_flight, None
        if in_flight and in_flight.through is not None:
            through = in_flight.through
            await self._on_disk(lambda: self._spool.acknowledge(through))

    async def _give_back(self) -> None:
        in_flight, self._in_flight = self._in_flight, None
        if in_flight and in_flight.through is None:
            self._put_back(in_flight.records)

    async def _close(self) -> None:
        await self._give_back()
        await self._move_to_disk()
        if self._memory:
            self._telemetry.emit(SPOOL_DROPPED, "the disk takes nothing at the end", count=len(self._memory))
        await self._on_disk(self._spool.close)
        self._disk.shutdown(wait=False)

    def _only_in_memory(self) -> tuple[ProducerRecord, ...]:
        """Return the records that are being sent and are not on disk."""
        return self._in_flight.records if self._in_flight and self._in_flight.through is None else ()

    def _put_back(self, records: Sequence[ProducerRecord]) -> None:
        self._memory.extendleft(reversed(records))
        self._memory_bytes += sum(map(record_bytes, records))
        self._bound_memory()

    def _bound_memory(self) -> None:
        dropped = 0
        while self._memory_bytes > self._most_bytes:
            self._memory_bytes -= record_bytes(self._memory.popleft())
            dropped += 1
        if dropped:
            self._telemetry.emit(SPOOL_DROPPED, "memory is full, and the disk takes nothing", count=dropped)

    async def _in_turn(self, step: Coroutine[Any, Any, _R]) -> _R:
        """Take one step at a time. It ends even if its caller is cancelled: it alone has the records."""

        async def whole() -> _R:
            async with self._turn:
                return await step

        return await asyncio.shield(asyncio.create_task(whole()))

    async def _on_disk(self, work: Callable[[], _R]) -> _R | None:
        """Do ``work`` in the disk's thread; None, and a condition, when the disk fails."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._disk, work)
        except (SpoolWriteError, sqlite3.Error) as error:
            if not is_damage(error) and not is_damage(error.__cause__):
                self._failed(error)
                return None
            # The file broke while in use: it is put aside, and another one begun.
            try:
                lost = await asyncio.get_running_loop().run_in_executor(self._disk, self._spool.renew)
            except SpoolError as failure:
                self._failed(failure)
                return None
            if self._in_flight and self._in_flight.through is not None:  # what is sent is in memory as well
                lost -= len(self._in_flight.records)
                self._in_flight = Batch(self._in_flight.records, None)
            detail = f"{self._spool.folder} broke ({error}), and is put aside as spool.damaged"
            self._telemetry.emit(SPOOL_DROPPED, detail, count=max(lost, 0))
            return None

    def _failed(self, error: Exception) -> None:
        detail = f"{self._spool.folder}: {error}; memory alone is used meanwhile"
        self._telemetry.raise_condition(SPOOL_FAILED, "disk", detail)
