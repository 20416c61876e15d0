"""A worker's port on the broker in memory; and one that notes each step, and dies or fails on request."""

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from dutycycle.contract.log import ConsumerRecord, ProducerRecord, TopicPartition
from dutycycle.contract.settings.load import load
from dutycycle.telemetry.events import Telemetry
from streams.app import StreamsApp
from streams.operators.base import Stage
from streams.runtime.checkpoint import EARLY_BYTES, WAITING_BYTES, CheckpointCoordinator
from streams.runtime.port import StreamsPort
from streams.runtime.stage_task import MAX_RESIDENT, StageTask
from streams.source_logs import SourceLogs
from streams.state.record import Write, partition_of, tombstone_headers
from tests.support.fakes.broker import Broker, Stored, Table
from tests.support.streams.toy import SOURCE, STAGE

Moment = Callable[[str, int], bool]
"""Called with a kind of step and how many of it came before: whether the process dies right there."""
_KINDS = ("head", "piece", "clock")


class BrokerPort(ABC):
    """Implements ``StreamsPort``; how a record travels to the broker is a subclass' part."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.begins: dict[TopicPartition, int | None] = {}
        """The committed offsets at the assignment."""
        self.member = True
        self._tables: dict[str, Table] = {}

    @abstractmethod
    async def _send(
        self, kind: str, topic: str, partition: int, land: Callable[[], object]
    ) -> "asyncio.Future[object]":
        """Put a record in line: an output, head, piece, clock or tombstone. ``land`` is its arrival."""

    @abstractmethod
    def _assigned(self, stage: str) -> set[int]: ...

    def now(self) -> float:
        """Seconds."""
        return 0.0

    def table(self, stage: str) -> Table:
        """What the process knows of a stage's changelog."""
        return self._tables.setdefault(stage, Table())

    async def post(self, out: ProducerRecord) -> "asyncio.Future[object]":
        number = self.broker.partition_of(out.key)
        return await self._send("output", out.topic, number, lambda: self.broker.land(out))

    async def write(self, stage: str, write: Write) -> "asyncio.Future[object]":
        number = partition_of(write.key)
        kind = "tombstone" if write.value is None else _KINDS[write.key[2]]
        record = Stored(write.key, write.value, tombstone_headers(write.offset))
        changelog = self.broker.changelogs[TopicPartition(stage, number)]
        return await self._send(kind, f"state-{stage}", number, lambda: changelog.append(record, self.now()))

    def wrote(self, stage: str, key: bytes, answer: object) -> bool:
        assert isinstance(answer, int)
        return self.table(stage).fence.wrote(partition_of(key), answer)

    async def is_sole_writer(self, stage: str) -> bool | None:
        fence, logs = self.table(stage).fence, self.broker.changelogs
        mine = self._assigned(stage)
        return all(fence.ends(number, logs[TopicPartition(stage, number)].end) for number in mine)

    def outdated(self, stage: str) -> list[Write]:
        return self.table(stage).reducer.outdated(self._assigned(stage))

    def rewritten(self, stage: str) -> None:
        self.table(stage).reducer.rewritten()

    def mirror(self, stage: str, key: bytes, value: bytes | None) -> None:
        self.table(stage).mirror(key, value)

    def states(self, stage: str) -> Iterable[tuple[bytes, bytes]]:
        return self.table(stage).data.items()

    def load(self, stage: str, key: bytes) -> bytes | None:
        return self.table(stage).data.get(key)

    def topic_id(self, source: str) -> str | None:
        return self.broker.topic_ids.get(source)

    def begins_at(self, source: TopicPartition) -> int | None:
        return self.begins.get(source)

    async def first_offset(self, source: TopicPartition, offset: int) -> int | None:
        found = self.broker.logs[source].next_from(offset)
        return None if found is None else found.offset


def streams_app(app: Any, coordinator: CheckpointCoordinator, port: StreamsPort) -> StreamsApp:
    """What a worker does with its app, on a port of the tests, which knows no changelogs by their topics."""
    return StreamsApp(app, coordinator, SourceLogs(app, coordinator, {}, {}, port, load({}), {}))


class Died(BaseException):
    """The process was killed at this step."""


class SteppedPort(BrokerPort):
    """One worker's port. ``steps`` is what it did, in order; an arrival is a step of its own.

    At the moment ``dies`` the process is gone; with ``errs`` that step fails instead. It is assigned all
    partitions, and recovered as it is made.
    """

    def __init__(self, broker: Broker, *, dies: Moment | None = None, errs: bool = False) -> None:
        super().__init__(broker)
        self.steps: list[str] = []
        self.failures: list[str] = []
        self._dies = dies or (lambda kind, before: False)
        self._errs = errs
        self._dead = False
        self._counts: Counter[str] = Counter()
        self.begins = dict(broker.committed)
        for (stage, number), changelog in broker.changelogs.items():
            changelog.recover(number, self.table(stage))

    def _assigned(self, stage: str) -> set[int]:
        return {number for name, number in self.broker.changelogs if name == stage}

    def _step(self, kind: str, detail: object = "") -> None:
        if self._dead:
            raise Died
        before = self._counts[kind]
        self._counts[kind] += 1
        self.steps.append(f"{kind} {detail}".strip())
        if self._dies(kind, before):
            self._dead = not self._errs
            raise (OSError if self._errs else Died)(f"{kind} {before}")

    async def _send(
        self, kind: str, topic: str, partition: int, land: Callable[[], object]
    ) -> "asyncio.Future[object]":
        if kind == "output":
            self._step("post", topic)
        else:
            self._step("drop" if kind == "tombstone" else f"save-{kind}")
        task = asyncio.ensure_future(self._arrive(kind, land))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # a dead worker asks nobody
        return task

    async def _arrive(self, kind: str, land: Callable[[], object]) -> object:
        await asyncio.sleep(0)
        self._step(f"arrived-{kind}")
        return land()

    def mirror(self, stage: str, key: bytes, value: bytes | None) -> None:
        self._step("mirror")
        super().mirror(stage, key, value)

    def committed(self, source: TopicPartition) -> int:
        return self.broker.committed.get(source, 0)

    def acknowledge(self, source: TopicPartition, offset: int) -> None:
        self._step("acknowledge", offset)
        self.broker.commit(source, offset + 1)

    def may_write(self) -> bool:
        return self.member

    def fail(self, reason: str) -> None:
        self.failures.append(reason)


class Worker:
    """A coordinator with one stage on a stepped port, from its start to its death."""

    def __init__(
        self, broker: Broker, *, dies: Moment | None = None, errs: bool = False, stage: Stage = STAGE,
        early_bytes: int = EARLY_BYTES, waiting_bytes: int = WAITING_BYTES, max_resident: int = MAX_RESIDENT,
    ) -> None:  # fmt: skip
        self.port = SteppedPort(broker, dies=dies, errs=errs)
        self.telemetry = Telemetry("test")
        self.task = StageTask(stage, self.port, self.telemetry, "t.", max_resident=max_resident)
        self.coordinator = CheckpointCoordinator(
            self.port, [self.task], self.telemetry, early_bytes=early_bytes, waiting_bytes=waiting_bytes
        )

    async def take(self, *records: ConsumerRecord) -> None:
        await self.coordinator.process(self.task, records)

    async def commit(self, *records: ConsumerRecord) -> None:
        """Take records, and commit."""
        await self.take(*records)
        await self.coordinator.commit()


def record(
    offset: int, value: int | bytes | None, key: str | None = "a", partition: int = 0
) -> ConsumerRecord:
    """A source record; ``value`` may be bytes, None, or a number for the toy to add."""
    given = b'{"n":%d}' % value if isinstance(value, int) else value
    return ConsumerRecord(SOURCE, partition, offset, key, given, 1_000 + offset)


def place(partition: int = 0, topic: str = SOURCE) -> TopicPartition:
    """A partition of the toy's source."""
    return TopicPartition(topic, partition)
