"""The task's port on the Kafka in memory."""

import asyncio
from binascii import crc32
from collections.abc import Awaitable, Iterable

from contract.log import ProducerRecord, TopicPartition
from streams.state.record import tombstone_headers
from streams.state.recovery import Rewrite
from tests.support.simulation.kafka import Kafka, Stored, Table
from tests.support.simulation.process import Process, SendFailedError, Wire, delay_s


class SimulatedPort:
    """Implements ``streams.runtime.port.StreamsPort`` for one process."""

    def __init__(self, kafka: Kafka, process: Process) -> None:
        self._kafka = kafka
        self._process = process
        self._wires: dict[TopicPartition, Wire] = {}
        self._tables: dict[str, Table] = {}
        self.places: list[TopicPartition] = []
        """Stage and partition of what it was assigned."""
        self.begins: dict[TopicPartition, int | None] = {}
        self.done: dict[TopicPartition, int] = {}
        """What may be committed, and is not yet."""
        self.mine: dict[TopicPartition, int] = {}
        """What it has committed in this assignment."""
        self.member = True
        self.failure = asyncio.Event()
        self.reason = ""

    async def post(self, out: ProducerRecord) -> Awaitable[object]:
        """See ``StreamsPort``."""
        await self._room()
        number = crc32(out.key.encode()) % self._kafka.partitions
        return self._wire(out.topic, number).send(lambda: self._kafka.land(out))

    async def save(self, stage: str, partition: int, key: bytes, value: bytes) -> Awaitable[object]:
        """See ``StreamsPort``."""
        await self._room()
        return self._store(stage, partition, Stored(key, value, []))

    async def drop(self, stage: str, partition: int, key: bytes, offset: int) -> Awaitable[object]:
        """See ``StreamsPort``."""
        await self._room()
        return self._store(stage, partition, Stored(key, None, tombstone_headers(offset)))

    def _store(self, stage: str, partition: int, record: Stored) -> Awaitable[object]:
        self._process.storing.set()
        changelog, now = self._kafka.changelogs[TopicPartition(stage, partition)], self._process.now
        return self._wire(f"state-{stage}", partition).send(lambda: changelog.append(record, now()))

    def wrote(self, stage: str, partition: int, answer: object) -> bool:
        """See ``StreamsPort``."""
        assert isinstance(answer, int)
        return self.table(stage).fence.wrote(partition, answer)

    async def is_sole_writer(self, stage: str) -> bool:
        """See ``StreamsPort``."""
        await self._process.pause(delay_s(self._process.dice))
        fence, logs = self.table(stage).fence, self._kafka.changelogs
        mine = [number for name, number in self.places if name == stage]
        return all(fence.ends(number, logs[TopicPartition(stage, number)].end) for number in mine)

    def outdated(self, stage: str) -> list[Rewrite]:
        """See ``StreamsPort``."""
        mine = {number for name, number in self.places if name == stage}
        return self.table(stage).reducer.outdated(mine)

    def rewritten(self, stage: str) -> None:
        """See ``StreamsPort``."""
        self.table(stage).reducer.rewritten()

    async def _room(self) -> None:
        """Now and then the line is full; now and then nothing leaves at all."""
        dice = self._process.dice
        if dice.random() < 0.05:
            await self._process.pause(delay_s(dice))
        await self._process.awake()
        if self._process.sends_fail and dice.random() < 0.3:
            self._process.sends_fail -= 1
            raise SendFailedError("did not leave")

    def _wire(self, topic: str, partition: int) -> Wire:
        found = self._wires.get(TopicPartition(topic, partition))
        if found is None:
            found = self._wires[TopicPartition(topic, partition)] = Wire(self._process)
        return found

    def mirror(self, stage: str, partition: int, key: bytes, value: bytes | None) -> None:
        """See ``StreamsPort``."""
        self.table(stage).mirror(key, value)

    def table(self, stage: str) -> Table:
        """What the process knows of a stage's changelog."""
        return self._tables.setdefault(stage, Table())

    def states(self, stage: str) -> Iterable[tuple[bytes, bytes]]:
        """See ``StreamsPort``."""
        return self.table(stage).data.items()

    def load(self, stage: str, key: bytes) -> bytes | None:
        """See ``StreamsPort``."""
        return self.table(stage).data.get(key)

    def begins_at(self, source: str, partition: int) -> int | None:
        """See ``StreamsPort``."""
        return self.begins.get(TopicPartition(source, partition))

    def committed(self, source: str, partition: int) -> int:
        """See ``StreamsPort``: what this process has committed itself counts at once."""
        return max(
            self.begins.get(TopicPartition(source, partition)) or 0,
            self.mine.get(TopicPartition(source, partition), 0),
        )

    async def first_offset(self, source: str, partition: int, offset: int) -> int | None:
        """See ``StreamsPort``."""
        await self._process.pause(delay_s(self._process.dice))
        found = self._kafka.logs[TopicPartition(source, partition)].next_from(offset)
        return None if found is None else found.offset

    def acknowledge(self, source: str, partition: int, offset: int) -> None:
        """See ``StreamsPort``."""
        self.done[TopicPartition(source, partition)] = offset + 1

    def may_write(self) -> bool:
        """See ``StreamsPort``."""
        return not self._process.stalled and self.member

    def fail(self, reason: str) -> None:
        """See ``StreamsPort``."""
        self.reason = self.reason or reason
        self.failure.set()
