"""Makes Faust's producer exact: idempotent, and silent while others may own the partitions of this worker."""

from asyncio import Event, Future, TimerHandle, sleep
from collections.abc import Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any

from aiokafka.errors import KafkaError, KafkaTimeoutError
from aiokafka.partitioner import murmur2
from aiokafka.structs import TopicPartition
from faust.transport.drivers import aiokafka as driver

from dutycycle.kafka.clients import harden_producer, note_throttling, stop_producer, translate

_LOOK_S = 0.1
_LONGEST_WAIT_S = 0.05
"""So long a record waits for others at most, which go with it in one request: it costs milliseconds, however
little is in it. A linger counts for each batch by itself, and makes a request of almost every record."""
_hash = lru_cache(maxsize=100_000)(murmur2)
"""Of a key: it takes 20 µs, and the same keys come again and again."""


class ExactProducer(driver.Producer):
    """Sends: idempotent, acknowledged by all replicas in sync, with timestamps in whole milliseconds.

    After a request its broker is held: records for it gather until ``release`` is called, which is when all
    that was fetched is done, a batch is full, a record is urgent, or the first of them has waited for long.
    """

    def on_init(self) -> None:
        """Hold nothing yet."""
        super().on_init()
        self._released = Event()
        """Set at the next release; another one then."""
        self._release_due: TimerHandle | None = None

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True}

    def _new_producer(self, transactional_id: str | None = None) -> Any:
        client = super()._new_producer(transactional_id)
        harden_producer(client)
        app: Any = self.app
        note_throttling(client.client, app.telemetry)
        self._guard(client._sender)
        return client

    def _guard(self, sender: Any) -> None:
        """Send nothing while others may own our partitions.

        Records in the queue, and retries, are older than what they have written since. They wait until the
        group counts us in again; if it has counted us out, the process ends.
        """
        send: Callable[..., Awaitable[None]] = sender._send_produce_req
        app: Any = self.app

        async def send_if_owner(node_id: int, batches: Any, released: Event) -> None:
            while True:
                if (reason := app.replaced()) is not None:
                    app.fail(reason)
                    await Event().wait()  # until the producer is stopped
                if not app.exact_consumer.may_be_replaced():
                    break
                await sleep(_LOOK_S)
            await send(node_id, batches)
            if sender._message_accumulator._batches:  # their release may have been while this was on its way
                self._release_soon()
            # Not held where a release since the drain was for what waits now, or one is to be tried again.
            if not released.is_set() and all(batch.future.done() for batch in batches.values()):
                sender._in_flight.add(node_id)
                await released.wait()
                sender._in_flight.discard(node_id)

        # No coroutine itself: it is called in the same step in which the batches are drained.
        sender._send_produce_req = lambda node_id, batches: send_if_owner(node_id, batches, self._released)

    def release(self) -> None:
        """Send what waits."""
        if self._release_due is not None:
            self._release_due.cancel()
            self._release_due = None
        self._released.set()
        self._released = Event()

    def _release_soon(self) -> None:
        if self._release_due is None:
            self._release_due = self.loop.call_later(_LONGEST_WAIT_S, self.release)

    async def flush(self) -> None:
        """Do nothing: whoever needs an acknowledgement waits for it, and an outage would hold up all
        others."""

    async def on_stop(self) -> None:
        """Disconnect at once; the driver's own stop waits for a line that never empties in an outage."""
        client, self._producer = self._producer, None
        if client is None:
            return
        self.release()
        await stop_producer(client)

    def append(self, topic: str, key: bytes, value: bytes | None, *, ts_ms: int) -> "Future[Any] | None":
        """Put a record into the batch that waits for its partition; the future of the batch, which is not
        to be cancelled.

        None, and nothing is done, where ``post`` has to wait: the batch is full, the topic is new.
        The client's own way costs three times as much, and a future for each record.
        """
        client = self._ensure_producer()
        lines: Any = client._message_accumulator
        partitions = client.client.cluster._partitions.get(topic)
        if not partitions or lines._closed or lines._exception is not None:
            return None
        place = TopicPartition(topic, (_hash(key) & 0x7FFFFFFF) % len(partitions))
        waiting = lines._batches.get(place)
        batch = waiting[-1] if waiting else lines._append_batch(lines.create_builder(), place)
        if batch._builder.append(timestamp=ts_ms, key=key, value=value) is None:
            self.release()
            return None
        self._release_soon()
        arrival: Future[Any] = batch.future
        return arrival

    async def post(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        *,
        ts_ms: int | None,
        partition: int | None = None,
        headers: list[tuple[str, bytes]] | None = None,
        urgent: bool = False,
    ) -> "Future[Any]":
        """Put a record in line and return the future of its acknowledgement. ``ts_ms`` None is now; the line
        of an ``urgent`` one is sent at once.

        Waits while the line is full. Records of one partition arrive in the order of the calls.
        """
        client = self._ensure_producer()
        if urgent:
            self.release()  # a line that is full has room then
        while True:
            try:
                sent: Future[Any] = await client.send(
                    topic, value, key=key, partition=partition, timestamp_ms=ts_ms, headers=headers
                )
            except KafkaTimeoutError:
                continue  # the broker is away and the line is full: the record was not taken, ask again
            except KafkaError as error:
                raise translate(error, f"topic {topic}") from error
            self.release() if urgent else self._release_soon()
            return sent
