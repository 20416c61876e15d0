"""Is the way to the broker that the publisher sends by."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import SAMPLE_TOPICS, TOPICS, full_name
from dutycycle.kafka.clients import probe
from dutycycle.kafka.errors import BrokerError, RecordRefusedError
from dutycycle.kafka.producer import Producer
from dutycycle.kafka.topic_settings import read_batch_bytes
from dutycycle.kafka.topics import ensure_topics
from dutycycle.telemetry.events import Telemetry


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """Names a record that was not stored, and why."""

    record: ProducerRecord
    error: BrokerError


class Link(Protocol):
    """Sends over a connection. After an error or a refusal it can only be aborted."""

    async def deliver(self, records: Sequence[ProducerRecord]) -> list[RefusedRecord]:
        """Return when all are acknowledged but those in the answer; raises ``BrokerError``.

        A broker refuses records together: at least one of those in the answer can never be stored.
        """
        ...

    async def abort(self) -> None:
        """Disconnect now."""
        ...


class KafkaLink:
    """Sends by an idempotent producer, with the topics that it writes to."""

    def __init__(self, producer: Producer, prefix: str) -> None:
        self._producer = producer
        self._names = {name: full_name(prefix, name) for name in TOPICS}

    @classmethod
    async def open(cls, settings: Settings, telemetry: Telemetry | None = None) -> Self:
        """Connect, and create the topics if they are missing. Raises ``BrokerError``, ``DutycycleError``."""
        await probe(settings)  # for the clients a wrong password and an absent broker are the same error
        # A collector keeps no state: that partitions differ concerns the workers, which say so.
        topics = await ensure_topics(settings, SAMPLE_TOPICS, alike=False)
        batch_bytes = await read_batch_bytes(settings, topics)
        # No linger: a batch is handed over at once, and awaited before the next.
        producer = Producer(settings, "collector", linger_ms=0, batch_bytes=batch_bytes, telemetry=telemetry)
        await producer.start()
        return cls(producer, settings.topic_prefix)

    async def deliver(self, records: Sequence[ProducerRecord]) -> list[RefusedRecord]:
        """Send all in order, and wait for the acknowledgements."""
        sent = [
            await self._producer.send(self._names[record.topic], record.key, record.value, record.ts_ms)
            for record in records
        ]
        return refused(records, await self._producer.failures(sent))

    async def abort(self) -> None:
        """Disconnect; what is on its way may arrive or not."""
        await self._producer.abort()


def refused(records: Sequence[ProducerRecord], failures: Sequence[BrokerError | None]) -> list[RefusedRecord]:
    """Return the records that failed, if a refusal is among the failures; else raises the first failure.

    After a refused batch the broker takes no later one of that producer either, for its sequence numbers.
    """
    pairs = zip(records, failures, strict=True)
    failed = [RefusedRecord(record, error) for record, error in pairs if error is not None]
    if failed and not any(isinstance(refusal.error, RecordRefusedError) for refusal in failed):
        raise failed[0].error
    return failed
