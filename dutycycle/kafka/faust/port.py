"""Declares what a worker needs of Kafka, narrow enough that its order of doing things is tested without
it."""

from asyncio import Future
from typing import Protocol

from dutycycle.contract.log import ProducerRecord, TopicPartition, key_bytes
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name
from dutycycle.kafka.faust.app import ExactApp
from dutycycle.kafka.faust.offsets import first_offset


class WorkerPort(Protocol):
    """Is Kafka as a worker sees it. Topics are without prefix."""

    def begins_at(self, source: TopicPartition) -> int | None:
        """Return the committed offset at which reading began; None if nothing was ever committed."""
        ...

    async def first_offset(self, source: TopicPartition, offset: int) -> int | None:
        """Return the first offset at or after ``offset`` that the broker has a record for; None if it has
        none."""
        ...

    def acknowledge(self, source: TopicPartition, offset: int) -> None:
        """Note that everything up to and including ``offset`` is done: it may be committed."""
        ...

    async def post(self, out: ProducerRecord) -> "Future[object]":
        """Put a record in line, in the order of the calls; the answer is awaited for its arrival."""
        ...

    def may_write(self) -> bool:
        """Tell whether this worker still owns what it was assigned, as far as it can know."""
        ...

    def fail(self, reason: str) -> None:
        """End the process: what is not acknowledged is done again by the next one."""
        ...


class FaustPort:
    """Implements ``WorkerPort``, which says what each method promises."""

    def __init__(self, app: ExactApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    def begins_at(self, source: TopicPartition) -> int | None:
        return self._app.exact_consumer.begins_at(self._full(source.topic), source.partition)

    async def first_offset(self, source: TopicPartition, offset: int) -> int | None:
        return await first_offset(self._settings, self._full(source.topic), source.partition, offset)

    def acknowledge(self, source: TopicPartition, offset: int) -> None:
        self._app.exact_consumer.acknowledge(self._full(source.topic), source.partition, offset)

    async def post(self, out: ProducerRecord) -> "Future[object]":
        return await self._app.exact_producer.post(
            self._full(out.topic), key_bytes(out.key), out.value, ts_ms=out.ts_ms
        )

    def may_write(self) -> bool:
        return self._app.may_write()

    def fail(self, reason: str) -> None:
        self._app.fail(reason)

    def _full(self, topic: str) -> str:
        return full_name(self._settings.topic_prefix, topic)
