"""Sends records: in order, acknowledged by all replicas in sync, none twice while one producer lives."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

from aiokafka.partitioner import murmur2

from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name
from dutycycle.kafka.clients import (
    BATCH_BYTES,
    new_producer,
    note_throttling,
    stop_producer,
    translate,
    translated,
)
from dutycycle.kafka.errors import BrokerError, BrokerUnreachableError
from dutycycle.kafka.topics import ensure_topics
from dutycycle.telemetry.events import Telemetry

Delivery = asyncio.Future[Any]
"""Done when the broker has acknowledged the record."""
_START_S = 20.0


def partition_of(key: str, count: int) -> int:
    """Return in which of ``count`` partitions the records of a key lie that a ``Producer`` sent, or another
    client that divides them as Java's does."""
    return int(murmur2(key.encode()) & 0x7FFFFFFF) % count


class Producer:
    """Sends records once it is started; memory is bounded by itself, as ``send`` waits for room.

    An outage is outlasted: what was sent is tried again until it is acknowledged or ``abort`` gives up.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        *,
        linger_ms: int = 20,
        compression: str = "zstd",
        batch_bytes: int = BATCH_BYTES,
        telemetry: Telemetry | None = None,
    ) -> None:
        """Make a producer, not started. ``batch_bytes``: the largest batch of several records; see
        ``topic_settings.read_batch_bytes``. ``telemetry`` counts what a quota delays."""
        self._driver = new_producer(
            settings, name, linger_ms=linger_ms, compression=compression, batch_bytes=batch_bytes
        )
        if telemetry is not None:
            note_throttling(self._driver.client, telemetry)
        self._pending: set[Delivery] = set()

    async def start(self) -> None:
        """Connect. Raises ``BrokerError``; a producer that did not start is of no further use."""
        try:
            with translated():
                async with asyncio.timeout(_START_S):  # the driver would ask for its producer id for ever
                    await self._driver.start()
        except BaseException:
            await self.abort()
            raise

    async def send(self, topic: str, key: str | None, payload: bytes | None, ts_ms: int | None) -> Delivery:
        """Queue one record (``payload`` None is a tombstone); full topic name, Unix milliseconds.

        Raises ``RecordRefusedError`` for a record that is too large, ``BrokerUnreachableError`` when there
        was no room in time.
        """
        raw_key = None if key is None else key.encode()
        with translated(topic):
            delivery: Delivery = await self._driver.send(topic, payload, raw_key, timestamp_ms=ts_ms)
        self._pending.add(delivery)
        delivery.add_done_callback(self._pending.discard)
        return delivery

    async def settle(self, deliveries: Iterable[Delivery]) -> None:
        """Wait until every record is acknowledged; raises the first failure, after all have ended."""
        for failure in await self.failures(deliveries):
            if failure is not None:
                raise failure

    async def failures(self, deliveries: Iterable[Delivery]) -> list[BrokerError | None]:
        """Wait until all have ended; what each failed with, None for an acknowledged one."""
        results = await asyncio.gather(*deliveries, return_exceptions=True)
        return [translate(result) if isinstance(result, BaseException) else None for result in results]

    async def stop(self, most_s: float = 10.0) -> None:
        """Send what is queued and disconnect; ``BrokerUnreachableError`` if it took over ``most_s``."""
        try:
            async with asyncio.timeout(most_s):
                await self._driver.flush()
        except TimeoutError as error:
            raise BrokerUnreachableError(
                "timeout", f"not all was acknowledged within {most_s:g} s"
            ) from error
        finally:
            await self.abort()

    async def abort(self) -> None:
        """Disconnect now. What was not acknowledged fails, and may have been stored all the same."""
        try:
            await stop_producer(self._driver)
        finally:
            for delivery in [pending for pending in self._pending if not pending.done()]:
                delivery.set_exception(ConnectionError("given up before it was acknowledged"))
                delivery.exception()  # seen: nobody has to ask for it


async def send_once(settings: Settings, name: str, records: Sequence[ProducerRecord]) -> None:
    """Send what a command has to tell, and wait until it is acknowledged: by a producer called ``name``, to
    topics that are created where they are missing. Raises ``DutycycleError``."""
    await ensure_topics(settings, ["pods"], outputs={record.topic for record in records})
    producer = Producer(settings, name)
    await producer.start()
    try:
        deliveries = [
            await producer.send(
                full_name(settings.topic_prefix, record.topic), record.key, record.value, record.ts_ms
            )
            for record in records
        ]
    finally:
        await producer.stop()  # not ``settle`` before it: that waits for ever for a broker that goes away
    await producer.settle(deliveries)
