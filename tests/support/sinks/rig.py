"""A dispatcher with a Kafka of the tests' own, which only remembers."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar

import orjson

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord, TopicPartition
from dutycycle.contract.topics import TOPICS
from dutycycle.kube.references import Patch
from dutycycle.telemetry.events import Telemetry
from sinks.annotations.sink import AnnotationSink
from sinks.base import Sink
from sinks.deadletters import DeadLetters
from sinks.dispatcher import Dispatcher
from sinks.records.sink import RecordsSink
from tests.support.waiting import until

S = TypeVar("S", AnnotationSink, RecordsSink)
TOPIC_OF = {topic.record: name for name, topic in TOPICS.items()}


class MemoryPort:
    """Implements ``dutycycle.kafka.faust.port.WorkerPort``."""

    def __init__(self) -> None:
        self.committed: dict[TopicPartition, int] = {}
        self.acknowledged: dict[TopicPartition, int] = {}
        self.on_broker: dict[TopicPartition, int] = {}
        self.dead_letters: list[dict[str, Any]] = []
        self.failures: list[str] = []
        self.dead_letters_fail = False

    def begins_at(self, place: TopicPartition) -> int | None:
        return self.committed.get(place)

    async def first_offset(self, place: TopicPartition, offset: int) -> int | None:
        await asyncio.sleep(0)
        return self.on_broker.get(place)

    def acknowledge(self, place: TopicPartition, offset: int) -> None:
        assert offset > self.acknowledged.get(place, -1)
        self.acknowledged[place] = offset

    async def post(self, out: ProducerRecord) -> "asyncio.Future[object]":
        assert out.topic == "dead-letters"
        return asyncio.ensure_future(self._arrive(out.value or b""))

    async def _arrive(self, payload: bytes) -> None:
        await asyncio.sleep(0)
        if self.dead_letters_fail:
            raise ConnectionError("the broker is gone")
        self.dead_letters.append(orjson.loads(payload))

    def may_write(self) -> bool:
        return True

    def fail(self, reason: str) -> None:
        self.failures.append(reason)


class Rig:
    """A dispatcher, its port and telemetry; give it sinks made with ``letters``."""

    def __init__(self) -> None:
        self.port = MemoryPort()
        self.telemetry = Telemetry("test")
        self.letters = DeadLetters("dutycycle.", self.telemetry, self.port.post, self.port.fail)
        self._offsets: dict[TopicPartition, int] = {}

    def dispatcher(self, *sinks: Sink) -> Dispatcher:
        """A dispatcher that gives to these sinks."""
        return Dispatcher(self.port, sinks, self.letters, self.telemetry)

    def origin(
        self,
        topic: str,
        record: Any,
        *,
        key: str | None = None,
        partition: int = 0,
        offset: int | None = None,
    ) -> ConsumerRecord:
        """The next record of a partition: a record, bytes, or None for a tombstone. ``key``: another than
        the record's own."""
        place = TopicPartition(topic, partition)
        number = self._offsets.get(place, 0) if offset is None else offset
        self._offsets[place] = number + 1
        if record is None or isinstance(record, bytes):
            value = record
        else:
            value, key = encode(record), key or TOPICS[topic].key_of(record)
        return ConsumerRecord(topic, partition, number, key or "k", value, getattr(record, "ts_ms", 1_000))

    def count(self, name: str) -> int:
        """How often an event happened, over all its labels."""
        return sum(number for (event, _), number in self.telemetry.counts.items() if event == name)


class AtWork(Generic[S]):
    """A sink that writes, behind a dispatcher: what it is given, and what may be acknowledged of it."""

    def __init__(self, rig: Rig, sink: S) -> None:
        self.rig, self.dispatcher = rig, rig.dispatcher(sink)
        self.sink: S = sink

    async def take(self, *records: Any) -> None:
        """Give it records, in order, each from the topic of its kind."""
        for record in records:
            await self.dispatcher.process([self.rig.origin(TOPIC_OF[type(record)], record)])

    async def written(self) -> None:
        """Wait until it holds nothing back."""
        await until(lambda: self.sink.pending_offsets().empty)

    async def write(self, *records: Any) -> None:
        """Give it records and wait until they are written."""
        await self.take(*records)
        await self.written()

    def acknowledged(self) -> dict[TopicPartition, int]:
        """Acknowledge what is done; the highest offset of each partition so far."""
        self.dispatcher.acknowledge()
        return self.rig.port.acknowledged


@asynccontextmanager
async def at_work(rig: Rig, sink: S) -> AsyncIterator[AtWork[S]]:
    """A sink that writes until this is left, which closes it."""
    task = asyncio.create_task(sink.run())
    try:
        yield AtWork(rig, sink)
    finally:
        task.cancel()
        await sink.close()


def patched(patch: Patch, present: Mapping[str, str]) -> dict[str, str]:
    """What is there after the patch: a JSON merge patch on a flat object."""
    merged = {**present, **patch}
    return {key: value for key, value in merged.items() if value is not None}
