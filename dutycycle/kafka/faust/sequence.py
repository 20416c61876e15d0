"""Tells whether the records of a source come as they lie in the log: none twice, none left out.

Faust delivers records twice around a seek, and was seen to leave some out. Gaps that are the broker's own are
left by compaction, by retention, and by the marks of transactions: they are told from loss by asking it.
"""

import asyncio
from collections.abc import Callable
from typing import NoReturn

from dutycycle.contract.log import ConsumerRecord, TopicPartition
from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.errors import BrokerError
from dutycycle.kafka.faust.port import WorkerPort
from dutycycle.telemetry.events import SOURCE_GAP, Telemetry


class SourceSequence:
    """Keeps the place in each partition, from its assignment to its revocation.

    ``fail`` ends the worker with a reason. ``assignment`` counts how often everything was forgotten.
    """

    def __init__(self, port: WorkerPort, telemetry: Telemetry, fail: Callable[[str], None]) -> None:
        self._port = port
        self._telemetry = telemetry
        self._fail = fail
        self._next: dict[TopicPartition, int] = {}
        self.assignment = 0

    def next_offset(self, topic: str, partition: int) -> int | None:
        """Return the offset to be taken next; None if nothing was taken since the assignment. For any
        thread."""
        return self._next.get(TopicPartition(topic, partition))

    async def admits(self, record: ConsumerRecord) -> bool:
        """Tell whether ``record`` is to be taken now; it then counts as taken.

        Not so if it was taken before, or if its partition was handed over while the broker was asked. Does
        not return if records before it were lost: the worker ends.
        """
        place = record.topic_partition
        known = self._next.get(place)
        expected = known if known is not None else self._port.begins_at(place) or 0
        if record.offset < expected:
            return False
        if record.offset > expected and not await self._bridged(record, expected, begins=known is None):
            return False
        self._next[place] = record.offset + 1
        return True

    async def _bridged(self, record: ConsumerRecord, expected: int, *, begins: bool) -> bool:
        """Tell whether the records from ``expected`` to before ``record`` are missing on the broker, too.

        A compacted topic is full of gaps: there it is asked only at the first record of an assignment,
        which is where Faust is known to lose some.
        """
        source = record.topic_partition
        is_compacted = TOPICS[source.topic].cleanup == "compact"
        if is_compacted and not begins:
            return True
        assignment = self.assignment
        gap = f"{source.topic}-{source.partition}: {expected}-{record.offset - 1}"
        try:
            first = await self._port.first_offset(source, expected)
        except BrokerError as error:
            await self._end(f"{gap} were not delivered, and the broker does not say why: {error}")
        if self.assignment != assignment:
            return False
        if first is not None and first < record.offset:
            await self._end(f"{gap} were not delivered, but are on the broker from {first} on")
        if not is_compacted and self._port.begins_at(source) is not None:
            self._telemetry.emit(
                SOURCE_GAP,
                f"{gap} are gone from the broker",
                count=record.offset - expected,
                topic=source.topic,
            )
        return True

    async def _end(self, reason: str) -> NoReturn:
        """End the worker. Never returns: the record must not count as taken."""
        self._fail(reason)
        while True:
            await asyncio.Event().wait()

    def forget(self) -> None:
        """Forget all places: the partitions were handed over, or assigned anew."""
        self.assignment += 1
        self._next.clear()
