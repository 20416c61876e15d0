"""Passes every record on: decodes it once, gives it to the sinks, and acknowledges it when all have written.

Records of one partition come in order. What cannot be used goes to the dead letters before the next record
is looked at; if even that fails the worker ends, and nothing after it counts as done.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.log import ConsumerRecord, TopicPartition
from dutycycle.contract.metering import heard_ms
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.faust.port import WorkerPort
from dutycycle.kafka.faust.sequence import SourceSequence
from dutycycle.telemetry.events import Telemetry
from sinks.base import PendingOffsets, Sink
from sinks.deadletters import DeadLetters
from sinks.events import SINK_AWAY


class OffsetProgress:
    """Counts what was taken of each partition, and what of it is done."""

    def __init__(self) -> None:
        self._taken: dict[TopicPartition, int] = {}
        self._reported: dict[TopicPartition, int] = {}

    def note_taken(self, place: TopicPartition, offset: int) -> None:
        """Note that the record was given to every sink, or to the dead letters."""
        self._taken[place] = offset

    def done(self, pending: PendingOffsets) -> list[tuple[TopicPartition, int]]:
        """Return for each partition that got further since the last call, the offset up to which all is done.

        ``pending`` stands for the records that some sink still has to see to.
        """
        further = []
        for place, taken in self._taken.items():
            lowest = pending.lowest(place)
            done = taken if lowest is None else lowest - 1
            if done > self._reported.get(place, -1):
                self._reported[place] = done
                further.append((place, done))
        return further

    def forget(self) -> None:
        """Forget all offsets: the partitions were assigned anew."""
        self._taken.clear()
        self._reported.clear()


class Dispatcher:
    """Takes records for all sinks of one worker."""

    def __init__(
        self, port: WorkerPort, sinks: Sequence[Sink], letters: DeadLetters, telemetry: Telemetry,
    ) -> None:  # fmt: skip
        self._port = port
        self._sequence = SourceSequence(port, telemetry, port.fail)
        self.next_offset = self._sequence.next_offset
        self._letters = letters
        self._telemetry = telemetry
        self._progress = OffsetProgress()
        self._waits: Counter[str] = Counter()
        self.newest_ms: dict[str, int] = {}
        """The newest timestamp that was taken of each topic."""
        self.sinks = list(sinks)
        # Counted in plain integers and read at the scrape: once for every record.
        self.records_taken = dict.fromkeys(self.topics, 0)
        self.records_used = dict.fromkeys(self.topics, 0)

    @property
    def topics(self) -> list[str]:
        """Return what has to be read, without prefix, each once."""
        return list(dict.fromkeys(topic for sink in self.sinks for topic in sink.topics))

    async def process(self, records: Sequence[ConsumerRecord]) -> None:
        """Take the records of one partition, in order. Does not return when the worker has to end."""
        assignment = self._sequence.assignment
        for origin in records:
            if self._sequence.assignment != assignment:
                return  # handed over while we waited: somebody else reads the rest again
            if not await self._sequence.admits(origin):
                continue
            wanting = [sink for sink in self.sinks if origin.topic in sink.topics and sink.wants(origin)]
            bad = self._give(origin, wanting)
            if bad is not None and not await self._letters.send(origin, *bad):
                # For ever: the worker ends, and nothing after this record may count as done.
                await asyncio.Event().wait()
            if self._sequence.assignment != assignment:
                return  # as above
            self._progress.note_taken(origin.topic_partition, origin.offset)
            # A clock that is ahead shall not hide a standstill.
            newest_ms = heard_ms(origin.ts_ms, time.time())
            self.newest_ms[origin.topic] = max(newest_ms, self.newest_ms.get(origin.topic, 0))
            self.records_taken[origin.topic] += 1
            self.records_used[origin.topic] += bad is None and bool(wanting)
            for sink in wanting:
                self._waits[sink.name] += 1
                try:
                    await sink.room()
                finally:
                    self._waits[sink.name] -= 1

    def _give(self, origin: ConsumerRecord, sinks: Sequence[Sink]) -> tuple[Reason, str] | None:
        """Give a record to the sinks, and return what is wrong with it, if something is; the sinks that can
        use it have it all the same."""
        if not sinks or origin.value is None:
            return None
        topic = TOPICS[origin.topic]
        try:
            record: Any = decode(topic.record, origin.value, origin.topic)
        except DecodeError as error:
            return error.reason, error.brief
        if not topic.is_under_its_key(origin.key, record):
            own = topic.key_of(record)
            return Reason.KEY, f"key: lies under {origin.key!r:.80}, which is not its own, {own!r:.80}"
        bad = None
        for sink in sinks:
            try:
                sink.take(origin, record)
            except ValueError as error:
                bad = Reason.REJECTED, f"{sink.name}: {error}"
        return bad

    def is_backpressured(self) -> bool:
        """Tell whether reading waits for a sink that says that what it writes to is away. For any thread.

        However long that takes, this is no worker that is stuck: another would wait just so.
        """
        waits = [name for name, count in list(self._waits.items()) if count]
        return any((SINK_AWAY.name, name) in self._telemetry.conditions for name in waits)

    def acknowledge(self) -> None:
        """Tell Kafka how far every partition is done."""
        pending = PendingOffsets()
        for sink in self.sinks:
            pending.merge(sink.pending_offsets())
        for place, offset in self._progress.done(pending):
            self._port.acknowledge(place, offset)

    async def drain(self) -> None:
        """Let the sinks write what they can at once, and acknowledge it."""
        await asyncio.gather(*(sink.drain() for sink in self.sinks))
        self.acknowledge()

    def forget(self) -> None:
        """Forget all: the partitions were handed over, or assigned anew: what is not acknowledged is read
        again."""
        self._sequence.forget()
        self._progress.forget()
        for sink in self.sinks:
            sink.forget()
