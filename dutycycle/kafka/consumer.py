"""Reads topics without a group: every partition, from a place of one's choosing, committing nothing."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from dutycycle.contract.log import ConsumerRecord, TopicPartition, key_text
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.clients import new_consumer, note_answers, partition, stop_consumer, translated
from dutycycle.kafka.errors import BrokerUnreachableError, MissingTopicError
from dutycycle.kafka.topics import topics_there

Start = Literal["beginning", "end"] | int
"""Where to begin: at the oldest record, after the newest, or with those of a Unix millisecond or later."""

_READ_THROUGH = 100_000
_SILENT_S = 10.0
"""Fetches are answered within a second, with nothing if there is nothing."""


class Consumer:
    """Reads ``topics`` (full names) once started. Not safe for use by several tasks at once."""

    def __init__(
        self,
        settings: Settings,
        name: str,
        topics: Sequence[str],
        start: Start | Mapping[str, Start],
        at: Mapping[TopicPartition, int] | None = None,
        *,
        wait_ms: int = 250,
    ) -> None:
        """Read ``topics``. ``start``: of all topics, or of each. ``at``: of some partitions the offset to go
        on at, where that is later than a ``start`` that is not "end"; a log that ends before it is another
        one, and is read whole. ``wait_ms``: how long the broker keeps a request while it has nothing."""
        self._settings = settings
        self._name = name
        self._topics = tuple(topics)
        self._starts = start if isinstance(start, Mapping) else dict.fromkeys(topics, start)
        self._at = dict(at or {})
        self._wait_ms = wait_ms
        self._least_ms = {name: start for name, start in self._starts.items() if isinstance(start, int)}
        self._driver: Any = None
        self._answered_s = time.monotonic()

    async def start(self) -> None:
        """Connect and go to the place. Raises ``BrokerError``, or names a topic that does not exist."""
        existing = await topics_there(self._settings, self._topics)
        if missing := [name for name in self._topics if name not in existing]:
            raise MissingTopicError(
                "no_topic",
                f"no topic {', '.join(missing)} on {self._settings.broker}: "
                "is DUTYCYCLE_TOPIC_PREFIX right, has a collector or worker been started, and may the user "
                "see it (Kafka's ACLs, Describe)?",
            )
        reset = "latest" if "end" in self._starts.values() else "earliest"
        self._driver = new_consumer(
            self._settings, self._name, *self._topics, reset=reset, wait_ms=self._wait_ms
        )

        def note_time(_request: Any, _answer: Any) -> None:
            self._answered_s = time.monotonic()

        note_answers(self._driver._client, note_time)
        try:
            with translated():
                await self._driver.start()
                await self._seek()
        except BaseException:
            await self.stop()
            raise

    async def take(self, wait_s: float = 1.0, most: int | None = None) -> list[ConsumerRecord]:
        """Return the next records, their topics with the prefix, in order within a partition; empty when none
        came within ``wait_s``."""
        with translated():
            batches = await self._driver.getmany(timeout_ms=int(wait_s * 1000), max_records=most)
        return [
            ConsumerRecord(
                record.topic, record.partition, record.offset,
                key_text(record.key), record.value,
                record.timestamp,
            )
            for batch in batches.values()
            for record in batch
            if record.timestamp >= self._least_ms.get(record.topic, -1)
        ]  # fmt: skip

    def refuse_silence(self) -> None:
        """Raise ``BrokerUnreachableError`` if no broker has answered for ten seconds: ``take`` goes on trying
        and gives nothing. For callers that have just waited in ``take`` for nothing."""
        if time.monotonic() - self._answered_s > _SILENT_S:
            raise BrokerUnreachableError("timeout", f"{self._settings.broker}: no answer for {_SILENT_S:g} s")

    async def ends(self) -> dict[TopicPartition, int]:
        """Return the offset after the newest record of each partition, now."""
        with translated():
            offsets = await self._driver.end_offsets(list(self._driver.assignment()))
        return {TopicPartition(place.topic, place.partition): offset for place, offset in offsets.items()}

    async def ends_at(self, ts_ms: int) -> dict[TopicPartition, int]:
        """Return of each partition the offset of the first record of ``ts_ms`` (Unix) or later; without one,
        and where the broker cannot look for a time, the offset after the newest record."""
        ends = await self.ends()
        with translated():
            times = {partition(*place): ts_ms for place in ends}
            offsets = await self._driver.offsets_for_times(times) if times else {}
        return {
            place: end if (later := offsets[partition(*place)]) is None else later.offset
            for place, end in ends.items()
        }

    def leave(self, places: Iterable[TopicPartition]) -> None:
        """Read no further in these partitions."""
        self._driver.pause(*(partition(*place) for place in places))

    async def reached(self, ends: dict[TopicPartition, int]) -> bool:
        """Tell whether all records before ``ends`` have been given out."""
        return await self.left(ends) == 0

    async def left(self, ends: dict[TopicPartition, int]) -> int:
        """Tell how many offsets before ``ends`` lie ahead of what has been given out."""
        with translated():
            return sum(
                [
                    max(0, offset - await self._driver.position(partition(*place)))
                    for place, offset in ends.items()
                ]
            )

    async def stop(self) -> None:
        """Disconnect."""
        if self._driver is not None:
            await stop_consumer(self._driver)
            self._driver = None

    async def _seek(self) -> None:
        places = list(self._driver.assignment())
        if whole := [place for place in places if self._starts[place.topic] == "beginning"]:
            await self._driver.seek_to_beginning(*whole)
        at_a_time = [place for place in places if isinstance(self._starts[place.topic], int)]
        if at_a_time:
            times = {place: self._starts[place.topic] for place in at_a_time}
            offsets = await self._driver.offsets_for_times(times)
            begins = await self._driver.beginning_offsets(at_a_time)
            ends = await self._driver.end_offsets(at_a_time)
            for place in at_a_time:
                if offsets[place]:
                    self._driver.seek(place, offsets[place].offset)
                # "Nothing so late" is also what the embedded broker says, which cannot look for a time. What
                # it can hold is read through instead; ``take`` leaves out what is too early.
                elif ends[place] - begins[place] > _READ_THROUGH:
                    self._driver.seek(place, ends[place])
        if self._at:
            await self._seek_offsets(places)
        for place in places:  # settles where "end" is now, not at some later fetch
            await self._driver.position(place)

    async def _seek_offsets(self, places: list[Any]) -> None:
        begins = await self._driver.beginning_offsets(places)
        ends = await self._driver.end_offsets(places)
        for place in places:
            wanted = self._at.get(TopicPartition(place.topic, place.partition))
            if wanted is None:
                continue
            if wanted > ends[place]:
                self._driver.seek(place, begins[place])
            elif self._starts[place.topic] == "end" or wanted > await self._driver.position(place):
                self._driver.seek(place, max(wanted, begins[place]))
