"""Publishes from the collectors to the broker: in order, acknowledged, on disk while the broker is
unreachable."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from collectors.publish.link import Link, RefusedRecord
from collectors.publish.outbox import Outbox
from dutycycle.contract.backoff import Backoff
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.topics import SAMPLE_TOPICS, TOPICS
from dutycycle.kafka.errors import BrokerError, BrokerRefusedError, BrokerUnreachableError
from dutycycle.kafka.reachability import Reachability
from dutycycle.telemetry.events import RECORD_REFUSED, RECORD_TOO_LARGE, SPOOLED, Telemetry
from dutycycle.telemetry.metrics import RECORDS_SENT

_BATCH_RECORDS = 500
_BATCH_BYTES = 1024 * 1024
_ABANDON_S = 3.0
_R = TypeVar("_R")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTimeouts:
    """Says how long an acknowledgement is waited for, seconds.

    Without an acknowledgement for ``spool_s`` the records go on disk, and the producer goes on trying: what
    an idempotent producer sends again is stored once (except by a broker that stops at that very moment).
    After ``renew_s`` a new producer takes its place, and what was in flight may be stored twice: readers know
    a tick by its node, collector and number.
    """

    spool_s: float = 3.0
    renew_s: float = 30.0


class Publisher:
    """Publishes records; ``publish`` never waits. From ``start`` to ``close`` a task sends, one batch after
    the other."""

    def __init__(
        self,
        outbox: Outbox,
        telemetry: Telemetry,
        reachability: Reachability,
        connect: Callable[[], Awaitable[Link]],
        *,
        timeouts: PublishTimeouts | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self._outbox = outbox
        self._telemetry = telemetry
        self._reachability = reachability
        self._connect = connect
        self._timeouts = timeouts or PublishTimeouts()
        self._backoff = backoff or Backoff()
        self._link: Link | None = None
        self._unreachable = False
        self._ever_answered = False
        self._sent = {topic: telemetry.metrics.counter(RECORDS_SENT, topic=topic) for topic in SAMPLE_TOPICS}
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def readiness_error(self) -> str | None:
        """Return what is wrong: no record is on the broker or on disk yet. None when all is well."""
        if self._ever_answered or self._outbox.spooled or self._telemetry.count(SPOOLED):
            return None
        return "no record is on the broker or on disk yet"

    def status_line(self) -> str:
        """Tell where records go now, for the status page."""
        if not self._unreachable:
            return "records go to the broker"
        return f"the broker is unreachable, {self._outbox.spooled} records are on disk"

    def publish(self, records: Sequence[ProducerRecord]) -> None:
        """Queue records behind all before; one that its topic cannot take is dropped and counted."""
        good = [record for record in records if len(record.value or b"") <= TOPICS[record.topic].max_bytes]
        for record in records:
            if len(record.value or b"") > TOPICS[record.topic].max_bytes:
                self._too_large(record)
        if good:
            self._idle.clear()
            self._outbox.put(good)

    def start(self) -> asyncio.Task[None]:
        """Send until ``close``, beginning with what a run of before left in the spool.

        The task ends by itself with a ``DutycycleError`` alone: when the broker refuses us before it took
        anything, so that a setting is wrong.
        """
        self._task = asyncio.create_task(self._run())
        return self._task

    async def _run(self) -> None:
        while True:
            batch = await self._outbox.next_batch(_BATCH_RECORDS, _BATCH_BYTES)
            if batch is None:
                if not self._outbox.has_new.is_set():
                    self._idle.set()
                await self._outbox.has_new.wait()
                continue
            try:
                for refused in await self._attempt(batch.records):
                    # Alone it is dropped, if it was the reason that it was refused with others.
                    for refusal in await self._attempt([refused.record]):
                        record, error = refusal.record, refusal.error
                        if error.reason == "too_large":
                            self._too_large(record)
                        else:
                            self._telemetry.emit(
                                RECORD_REFUSED, str(error), topic=record.topic, reason=error.reason
                            )
            except BrokerError as error:
                if isinstance(error, BrokerRefusedError) and not self._ever_answered:
                    raise
                self._unreachable = True
                self._reachability.mark_down(error)
                await self._disconnect()
                await self._outbox.give_back()
                await self._spooling_meanwhile(asyncio.sleep(self._backoff.next_s()))
            else:
                await self._outbox.acknowledge()

    async def close(self, most_s: float) -> None:
        """End the task when all is sent: after ``most_s`` at the latest, at once without a broker.

        What was not acknowledged stays in the spool.
        """
        if self._task and not self._task.done():
            if not self._unreachable:
                await _done_or_set(self._task, self._idle, most_s)
            self._task.cancel()
            await asyncio.wait({self._task})
        await self._disconnect()
        await self._outbox.close()

    async def _attempt(self, records: Sequence[ProducerRecord]) -> list[RefusedRecord]:
        link = self._link
        if link is None:
            link = await self._spooling_meanwhile(self._reconnect())
        try:
            async with asyncio.timeout(self._timeouts.renew_s):
                refused = await self._spooling_meanwhile(link.deliver(records))
        except TimeoutError as error:
            raise BrokerUnreachableError("timeout", f"no answer for {self._timeouts.renew_s:g} s") from error
        self._unreachable, self._ever_answered = False, True
        self._backoff.reset()
        self._reachability.mark_up()
        sent = Counter(record.topic for record in records)
        sent.subtract(refusal.record.topic for refusal in refused)
        for topic, number in sent.items():
            self._sent[topic].inc(number)
        if refused:
            await self._disconnect()
        return refused

    async def _reconnect(self) -> Link:
        link = self._link = await self._connect()
        return link

    async def _spooling_meanwhile(self, work: Coroutine[Any, Any, _R]) -> _R:
        """Do ``work``; when it takes long, the broker counts as unreachable, and new records go on disk."""
        task = asyncio.create_task(work)
        try:
            # Once an outage is known, what is new goes on disk at once.
            await asyncio.wait({task}, timeout=0 if self._unreachable else self._timeouts.spool_s)
            if not task.done() and not self._unreachable:
                self._unreachable = True
                self._reachability.mark_down(
                    BrokerUnreachableError("timeout", f"no answer for {self._timeouts.spool_s:g} s")
                )
            while not task.done():
                await self._outbox.move_to_disk()
                await _done_or_set(task, self._outbox.has_new)
            return await task
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_ABANDON_S)
            if task.done() and not task.cancelled():
                task.exception()  # seen, also where we are cancelled: else asyncio prints it

    def _too_large(self, record: ProducerRecord) -> None:
        size = len(record.value or b"")
        detail = f"{size} bytes from {record.key}: dropped"
        self._telemetry.emit(RECORD_TOO_LARGE, detail, topic=record.topic)

    async def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.abort()


async def _done_or_set(task: asyncio.Task[Any], event: asyncio.Event, most_s: float | None = None) -> None:
    """Return when the task has ended, when the event is set, or after ``most_s``."""
    waiter = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({task, waiter}, timeout=most_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiter.cancel()
