"""Follows topics without a consumer group: every process reads every partition, so any two know the same.

A process has one follower. Whoever answers from the topics subscribes to it: each topic is read once, and
each record decoded once, for all of them together.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS, full_name, short_name
from dutycycle.kafka.consumer import Consumer, Message, Start
from dutycycle.kafka.reachability import Reachability, retry_until_reachable
from dutycycle.kafka.tasks import together
from dutycycle.telemetry.events import RECORD_UNREADABLE, Telemetry
from dutycycle.telemetry.metrics import RECORDS_TAKEN, WATERMARK_DELAY

_WAIT_S = 0.5
_AT_ONCE = 50
"""Records between two moments at which others may work: some milliseconds, for which a question may wait."""
_LAST = frozenset({"pods", "pod-peaks"})
"""Read after the other whole topics: what a pod did is known before it is known that it has ended."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What somebody wants of the topics.

    ``topics``: without prefix, each with how many seconds back it begins; None: at its oldest record.
    ``take`` gets topic, key and record, which is None for a tombstone. ``wants``, asked before a record is
    decoded, gets topic, key and the record's Unix milliseconds.
    """

    topics: Mapping[str, float | None]
    take: Callable[[str, str, Any], None]
    wants: Callable[[str, str, int], bool] = lambda topic, key, ts_ms: True


class TopicFollower:
    """Gives records to its ``subscriptions``. ``name``: of the Kafka client. ``wall``: Unix seconds.

    After an outage each partition goes on where it was; a log that ends before that is another one, and is
    taken whole. What waiting for a broker does not mend is raised.
    """

    def __init__(
        self,
        settings: Settings,
        telemetry: Telemetry,
        name: str,
        subscriptions: Iterable[Subscription],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings, self._telemetry = settings, telemetry
        self._name, self._wall = name, wall
        self._subscribers: dict[str, list[Subscription]] = {}
        self._back_s: dict[str, float | None] = {}
        for subscription in subscriptions:
            for topic, back_s in subscription.topics.items():
                self._subscribers.setdefault(topic, []).append(subscription)
                longest_s = self._back_s.setdefault(topic, back_s)
                self._back_s[topic] = None if None in (longest_s, back_s) else max(longest_s, back_s)  # type: ignore[type-var]
        self.topics = tuple(self._back_s)
        """All that are subscribed to, without prefix."""
        self._written = written_topics(self._back_s, settings.analyses)
        self._next: dict[TopicPartition, int] = {}
        self._caught_up = {topic: asyncio.Event() for topic in self._written}
        """Set when all is read that was there at the start."""
        self._taken: Counter[str] = Counter(dict.fromkeys(self._back_s, 0))
        self._newest_ms: dict[str, int] = {}
        metrics = telemetry.metrics
        metrics.read(RECORDS_TAKEN, lambda: {(topic,): float(n) for topic, n in self._taken.items()})
        metrics.read(
            WATERMARK_DELAY,
            lambda: {(topic,): wall() - ms / 1000 for topic, ms in list(self._newest_ms.items())},
        )

    def readiness_error(self, topics: Iterable[str]) -> str | None:
        """Which of ``topics`` were not read yet as far as they were there at the start; None if all were."""
        unread = [
            topic for topic in topics if topic in self._caught_up and not self._caught_up[topic].is_set()
        ]
        return f"reading {', '.join(unread)}" if unread else None

    async def wait_until_read(self, topics: Iterable[str]) -> None:
        """Wait until all is read of ``topics`` that was there at the start."""
        for topic in topics:
            if topic in self._caught_up:
                await self._caught_up[topic].wait()

    async def run(self) -> None:
        """Follow until cancelled; a broker that is away is waited for. Topics that no chosen analysis writes
        are left out."""
        first = [topic for topic in self._written if self._back_s[topic] is None and topic not in _LAST]

        async def read_rest() -> None:
            await self.wait_until_read(first)
            await self._read([topic for topic in self._written if topic not in first])

        await together(self._read(first), read_rest())

    async def _read(self, topics: list[str]) -> None:
        if not topics:
            return
        prefix, reachability = self._settings.topic_prefix, Reachability(self._settings, self._telemetry)

        def begin(topic: str) -> Start:
            back_s = self._back_s[topic]
            return "beginning" if back_s is None else max(0, round((self._wall() - back_s) * 1000))

        async def read() -> None:
            starts = {full_name(prefix, topic): begin(topic) for topic in topics}
            consumer = Consumer(self._settings, self._name, list(starts), starts, self._next)
            try:
                await consumer.start()
                ends = await consumer.ends()
                reachability.mark_up()
                while True:
                    for topic in topics:
                        name, caught_up = full_name(prefix, topic), self._caught_up[topic]
                        if not caught_up.is_set() and await consumer.reached(
                            {place: end for place, end in ends.items() if place.topic == name}
                        ):
                            caught_up.set()
                    messages = await consumer.take(_WAIT_S, _AT_ONCE)
                    for message in messages:
                        self.take(message)
                    if not messages:
                        consumer.refuse_silence()
                    await asyncio.sleep(0)  # what was fetched already comes without a pause
            finally:
                await consumer.stop()

        await retry_until_reachable(read, reachability)

    def take(self, message: Message) -> None:
        """Give a record to those who want it. One that cannot be read is counted, and given to nobody."""
        self._next[TopicPartition(message.topic, message.partition)] = message.offset + 1
        topic, key = short_name(self._settings.topic_prefix, message.topic) or "", message.key_text or ""
        self._taken[topic] += 1
        self._newest_ms[topic] = max(message.ts_ms, self._newest_ms.get(topic, 0))
        subscribers = [sub for sub in self._subscribers[topic] if sub.wants(topic, key, message.ts_ms)]
        if not subscribers:
            return
        record: Any = None
        try:
            if message.payload is not None:
                record = decode(TOPICS[topic].record, message.payload, topic)
        except DecodeError as error:  # the streams make a dead letter of a sample
            where = f"{message.topic}-{message.partition}@{message.offset}: {error.brief}"
            self._telemetry.emit(RECORD_UNREADABLE, where, topic=topic)
            return
        for subscriber in subscribers:
            subscriber.take(topic, key, record)
