"""The broker in memory behind the publisher's link, with moods that a test decides."""

import asyncio
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from collectors.base import Outgoing
from collectors.publish.link import RefusedRecord
from dutycycle.contract.log import ProducerRecord
from dutycycle.kafka.errors import BrokerRefusedError, BrokerUnreachableError, RecordRefusedError
from tests.support.fakes.broker import Broker


class Mood(StrEnum):
    """How the broker takes a batch."""

    GOOD = "good"
    AWAY = "away"
    """It breaks the connection and stores nothing."""
    ACK_LOST = "ack lost"
    """It stores everything, then breaks the connection."""
    SILENT = "silent"
    """It answers nothing until its mood changes, then goes on from there."""


@dataclass
class FakeBroker:
    """``moods`` are taken one a batch; then ``mood`` stays."""

    mood: Mood = Mood.GOOD
    moods: list[Mood] = field(default_factory=list)
    refuses: set[int] = field(default_factory=set)
    """Records (by ``ts_ms``) that it will never take: a batch with one of them is refused as a whole."""
    closed: bool = False
    """Connections are refused."""
    forbids: bool = False
    """Credentials are refused."""
    broker: Broker = field(default_factory=Broker)
    links: int = 0
    aborted: int = 0

    async def connect(self) -> "FakeLink":
        if self.forbids:
            raise BrokerRefusedError("authentication", "password is wrong")
        if self.closed:
            raise BrokerUnreachableError("refused", "nothing listens there")
        self.links += 1
        return FakeLink(self)

    @property
    def log(self) -> list[ProducerRecord]:
        """What arrived, in order."""
        return self.broker.outputs

    def numbers(self) -> list[int]:
        """The ``ts_ms`` of what arrived, in order."""
        return [one.ts_ms for one in self.log]

    async def takes(self, records: Sequence[Outgoing]) -> list[RefusedRecord]:
        mood = self.moods.pop(0) if self.moods else self.mood
        while mood is Mood.SILENT:
            await asyncio.sleep(0.001)
            mood = self.mood
        if mood is Mood.AWAY:
            raise BrokerUnreachableError("connection", "the connection broke")
        if self.refuses & {one.ts_ms for one in records}:
            # Of two partitions, the one without a bad record is stored.
            together = {one.key for one in records if one.ts_ms in self.refuses}
            self._land(one for one in records if one.key not in together)
            error = RecordRefusedError("invalid", "the record is invalid for its topic")
            return [RefusedRecord(one, error) for one in records if one.key in together]
        self._land(records)
        if mood is Mood.ACK_LOST:
            raise BrokerUnreachableError("connection", "the connection broke")
        return []

    def _land(self, records: Iterable[Outgoing]) -> None:
        for one in records:
            self.broker.land(ProducerRecord(one.topic, one.key, one.payload, one.ts_ms))


@dataclass
class FakeLink:
    """One connection to a ``FakeBroker``."""

    broker: FakeBroker
    usable: bool = True

    async def deliver(self, records: Sequence[Outgoing]) -> list[RefusedRecord]:
        assert self.usable, "a link that failed or was let go of is used"
        self.usable = False
        refused = await self.broker.takes(records)
        self.usable = not refused
        return refused

    async def abort(self) -> None:
        self.usable = False
        self.broker.aborted += 1


def record(number: int, size: int = 10, key: str = "a") -> Outgoing:
    """A record that its ``ts_ms`` names."""
    return Outgoing(topic="pods", key=key, payload=b"x" * size, ts_ms=number)


def noise(number: int, size: int) -> Outgoing:
    """A record that cannot be compressed."""
    payload = random.Random(number).randbytes(size)  # noqa: S311 - not a secret
    return Outgoing(topic="pods", key="a", payload=payload, ts_ms=number)


def records(numbers: Iterable[int], size: int = 10) -> list[Outgoing]:
    """Several of them."""
    return [record(number, size) for number in numbers]
