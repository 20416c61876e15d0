"""Makes Faust's producer exact: idempotent, and silent while others may own the partitions of this worker."""

from asyncio import Event, Future, sleep, timeout
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from aiokafka.errors import KafkaError, KafkaTimeoutError
from aiokafka.partitioner import murmur2
from aiokafka.structs import TopicPartition
from faust.transport.drivers import aiokafka as driver

from dutycycle.kafka.clients import harden_producer, note_throttling, stop_producer, translate

_LOOK_S = 0.1
_PACE_S = 0.05
"""Between two requests to a broker. The first record after a quiet time goes at once; what follows waits, and
goes together. A linger counts for each batch by itself, and makes a request of almost every record. Nothing
waits behind a full batch, nor a record that somebody waits for."""
_hash = lru_cache(maxsize=100_000)(murmur2)
"""Of a key: it takes 20 µs, and the same keys come again and again."""


class ExactProducer(driver.Producer):
    """Sends: idempotent, acknowledged by all replicas in sync, with timestamps in whole milliseconds."""

    def _settings_extra(self) -> Mapping[str, Any]:
        return {"acks": "all", "enable_idempotence": True}

    def _new_producer(self, transactional_id: str | None = None) -> Any:
        client = super()._new_producer(transactional_id)
        harden_producer(client)
        self._urgent = Event()
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

        async def send_if_owner(node_id: int, batches: Any) -> None:
            while True:
                if (reason := app.replaced()) is not None:
                    app.fail(reason)
                    await Event().wait()  # until the producer is stopped
                if not app.exact_consumer.may_be_replaced():
                    break
                await sleep(_LOOK_S)
            full = any(batch._builder.closed() for batch in batches.values())
            self._urgent.clear()
            await send(node_id, batches)
            if not full:
                sender._in_flight.add(node_id)  # until then nothing more is sent to this broker
                with suppress(TimeoutError):
                    async with timeout(_PACE_S):
                        await self._urgent.wait()
                sender._in_flight.discard(node_id)

        sender._send_produce_req = send_if_owner

    async def flush(self) -> None:
        """Do nothing: whoever needs an acknowledgement waits for it, and an outage would hold up all
        others."""

    async def on_stop(self) -> None:
        """Disconnect at once; the driver's own stop waits for a line that never empties in an outage."""
        client, self._producer = self._producer, None
        if client is None:
            return
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
            return None
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
            self._urgent.set()
        while True:
            try:
                sent: Future[Any] = await client.send(
                    topic, value, key=key, partition=partition, timestamp_ms=ts_ms, headers=headers
                )
            except KafkaTimeoutError:
                continue  # the broker is away and the line is full: the record was not taken, ask again
            except KafkaError as error:
                raise translate(error, f"topic {topic}") from error
            return sent
