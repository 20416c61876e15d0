"""Reads topics in no group, from places of one's choosing: the one loop of all who follow topics so."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence

from dutycycle.contract.log import ConsumerRecord, TopicPartition
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name, short_name
from dutycycle.kafka.consumer import Consumer, Start
from dutycycle.kafka.errors import BrokerError
from dutycycle.kafka.topics import topics_there

_WAIT_S = 0.5
_RETRY_S = 1.0
_LOOK_S = 30.0
"""So often topics that are missing are looked for: streams may only just begin."""


class TopicReader:
    """Gives the records of ``topics`` (without prefix) to ``take``, each with its topic.

    ``start``: where a topic begins, asked at each beginning. ``at_once``: records between two moments at
    which others may work; of 50 some milliseconds, for which a question may wait. ``wait_ms``: as of a
    ``Consumer``. ``optional``: those of the topics that may not be there yet, and are taken when they come.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        topics: Sequence[str],
        start: Callable[[str], Start],
        take: Callable[[str, ConsumerRecord], None],
        *,
        at_once: int = 50,
        wait_ms: int = 250,
        optional: Collection[str] = (),
    ) -> None:
        self._settings, self._name = settings, name
        self._start, self._take = start, take
        self._at_once, self._wait_ms = at_once, wait_ms
        self._names = {full_name(settings.topic_prefix, topic): topic for topic in topics}
        self._optional = {full_name(settings.topic_prefix, topic) for topic in optional}
        self.next: dict[TopicPartition, int] = {}
        """Where each partition goes on."""
        self.away = ""
        """Why ``follow`` cannot read now; empty while it can, and before it tried."""
        self.is_reading = False
        """Is set while the broker answers ``follow``."""
        self.caught_up = {topic: asyncio.Event() for topic in topics}
        """Set when all is read that was there at the start; a topic that is not there has nothing."""

    def unread(self, topics: Collection[str]) -> list[str]:
        """Tell which of ``topics`` were not read yet as far as they were there at the start."""
        return [topic for topic in topics if topic in self.caught_up and not self.caught_up[topic].is_set()]

    async def follow(self, answered: Callable[[], None] = lambda: None) -> None:
        """Read until cancelled; a broker that is away, and a topic that is not there, are waited for.
        ``answered``: as of ``read``."""

        def note_answer() -> None:
            self.away, self.is_reading = "", True
            answered()

        try:
            while True:
                try:
                    await self.read(note_answer)
                except BrokerError as error:
                    self.away, self.is_reading = str(error), False
                    await asyncio.sleep(_RETRY_S)
        finally:
            self.is_reading = False

    async def read(self, answered: Callable[[], None]) -> None:
        """Read until cancelled; ``answered`` is called when the broker has answered. Raises ``BrokerError``
        where the broker is lost, or a topic is not there.

        Another call goes on in each partition where this one was; a log that ends before that is another
        one, and is taken whole.
        """
        while self._names:
            await self._read_there(answered)

    async def _read_there(self, answered: Callable[[], None]) -> None:
        """Read the topics that are there, until one comes that was not."""
        missing = self._optional and self._optional - {*await topics_there(self._settings, self._optional)}
        starts = {name: self._start(topic) for name, topic in self._names.items() if name not in missing}
        consumer = Consumer(
            self._settings, self._name, list(starts), starts, self.next, wait_ms=self._wait_ms
        )
        try:
            await consumer.start()
            ends = await consumer.ends()
            answered()
            for name in missing:
                self.caught_up[self._names[name]].set()
            look_s = time.monotonic() + _LOOK_S
            while True:
                for full_name, topic in self._names.items():
                    last = {place: end for place, end in ends.items() if place.topic == full_name}
                    if not self.caught_up[topic].is_set() and await consumer.reached(last):
                        self.caught_up[topic].set()
                messages = await consumer.take(_WAIT_S, self._at_once)
                for message in messages:
                    self.next[message.topic_partition] = message.offset + 1
                    self._take(short_name(self._settings.topic_prefix, message.topic) or "", message)
                if not messages:
                    consumer.refuse_silence()
                await asyncio.sleep(0)  # what was fetched already comes without a pause
                if missing and time.monotonic() > look_s:
                    if await topics_there(self._settings, missing):
                        return
                    look_s = time.monotonic() + _LOOK_S
        finally:
            await consumer.stop()
