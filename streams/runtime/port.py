"""Declares what tasks and coordinator need of Kafka beyond what every worker needs: the changelogs of
states."""

from asyncio import Future
from collections.abc import Iterable
from typing import Protocol

from dutycycle.contract.log import ProducerRecord, TopicPartition
from dutycycle.kafka.faust.port import WorkerPort
from streams.state.record import Write


class StreamsPort(WorkerPort, Protocol):
    """Is Kafka as tasks and coordinator see it. ``stage`` is a name without prefix."""

    async def post(self, out: ProducerRecord) -> "Future[object]":
        """Send as ``WorkerPort.post``. The answer may be that of many records: it is not to be cancelled."""
        ...

    async def write(self, stage: str, write: Write) -> "Future[object]":
        """Put a record of a stage's changelog in line; the answer is awaited for its arrival."""
        ...

    def wrote(self, stage: str, key: bytes, answer: object) -> bool:
        """Hear the answer to the ``write`` of ``key``, in order; False if somebody else wrote before it."""
        ...

    async def is_sole_writer(self, stage: str) -> bool | None:
        """Ask the broker where the stage's changelog ends; False if somebody else wrote there.

        Nothing of ours is under way meanwhile. None if it does not answer.
        """
        ...

    def outdated(self, stage: str) -> list[Write]:
        """Return recovered records that count although an older one was written after them. Pieces first."""
        ...

    def rewritten(self, stage: str) -> None:
        """Note that all that was outdated is written anew."""
        ...

    def mirror(self, stage: str, key: bytes, value: bytes | None) -> None:
        """Note what the changelog holds now, so that ``load`` finds it; None after a tombstone."""
        ...

    def states(self, stage: str) -> Iterable[tuple[bytes, bytes]]:
        """Return everything that a stage's changelog holds, of all partitions that are assigned."""
        ...

    def load(self, stage: str, key: bytes) -> bytes | None:
        """Return what the changelog holds under ``key``."""
        ...

    def topic_id(self, source: str) -> str | None:
        """Return the identity of the topic that is read as ``source``, as of the recovery; None if
        unknown."""
        ...

    def committed(self, source: TopicPartition) -> int:
        """Return the offset that is committed now: no record before it is ever read again. 0 if none is."""
        ...
