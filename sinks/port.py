"""What the dispatcher needs of Kafka, narrow enough that its order of doing things is tested without it."""

from typing import Any, Protocol

from bus.faust.app import ExactApp
from bus.faust.offsets import first_offset
from contract.log import TopicPartition
from contract.settings.groups import Settings
from contract.topics import full_name


class Port(Protocol):
    """Kafka, as the dispatcher sees it. Topics are without prefix."""

    def begins_at(self, place: TopicPartition) -> int | None:
        """The committed offset at which reading began; None if nothing was ever committed."""
        ...

    async def first_offset(self, place: TopicPartition, offset: int) -> int | None:
        """The first offset at or after ``offset`` that the broker has a record for; None if it has none."""
        ...

    def acknowledge(self, place: TopicPartition, offset: int) -> None:
        """Everything up to and including ``offset`` is done: it may be committed."""
        ...

    async def send_dead_letter(self, key: bytes | None, payload: bytes, ts_ms: int) -> None:
        """Put a record on the dead letters; returns when the broker has it."""
        ...

    def may_write(self) -> bool:
        """Whether this worker still owns what it was assigned, as far as it can know."""
        ...

    def fail(self, reason: str) -> None:
        """End the process: what is not acknowledged is done again by the next one."""
        ...


class FaustPort:
    """Implements ``Port``."""

    def __init__(self, app: ExactApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    def begins_at(self, place: TopicPartition) -> int | None:
        """See ``Port``."""
        return self._app.exact_consumer.begins_at(self._full(place[0]), place[1])

    async def first_offset(self, place: TopicPartition, offset: int) -> int | None:
        """See ``Port``."""
        return await first_offset(self._settings, self._full(place[0]), place[1], offset)

    def acknowledge(self, place: TopicPartition, offset: int) -> None:
        """See ``Port``."""
        self._app.exact_consumer.acknowledge(self._full(place[0]), place[1], offset)

    async def send_dead_letter(self, key: bytes | None, payload: bytes, ts_ms: int) -> None:
        """See ``Port``."""
        sent: Any = await self._app.exact_producer.post(self._full("dead-letters"), key, payload, ts_ms=ts_ms)
        await sent

    def may_write(self) -> bool:
        """See ``Port``."""
        return self._app.may_write()

    def fail(self, reason: str) -> None:
        """See ``Port``."""
        self._app.fail(reason)

    def _full(self, topic: str) -> str:
        return full_name(self._settings.topic_prefix, topic)
