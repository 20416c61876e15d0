"""Follows topics without a consumer group: every process reads every partition, so any two know the same.

A process has one follower. Whoever answers from the topics subscribes to it: each topic is read once, and
each record decoded once, for all of them together.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.metering import heard_ms
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.consumer import Start
from dutycycle.kafka.reachability import Reachability, retry_until_reachable
from dutycycle.kafka.tasks import together
from dutycycle.telemetry.events import RECORD_UNREADABLE, Telemetry
from dutycycle.telemetry.metrics import RECORDS_TAKEN, WATERMARK_DELAY
from dutycycle.view.reader import TopicReader

_LAST = frozenset({"pods", "pod-peaks"})
"""Read after the other whole topics: what a pod did is known before it is known that it has ended."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """Says what somebody wants of the topics.

    ``topics``: without prefix, each with how many seconds back it begins; None: at its oldest record.
    ``take`` gets topic, key and record, which is None for a tombstone: the bytes where it ``decodes`` by
    itself. ``wants``, asked before a record is decoded, gets topic, key and the record's Unix milliseconds.
    """

    topics: Mapping[str, float | None]
    take: Callable[[str, str, Any], None]
    wants: Callable[[str, str, int], bool] = lambda topic, key, ts_ms: True
    decodes: bool = False


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
        self._settings, self._telemetry, self._wall = settings, telemetry, wall
        self._subscribers: dict[str, list[Subscription]] = {}
        self._back_s: dict[str, float | None] = {}
        for subscription in subscriptions:
            for topic, back_s in subscription.topics.items():
                subscribers = self._subscribers.setdefault(topic, [])
                if all(other.take != subscription.take for other in subscribers):  # else it is the same taker
                    subscribers.append(subscription)
                longest_s = self._back_s.setdefault(topic, back_s)
                self._back_s[topic] = None if None in (longest_s, back_s) else max(longest_s, back_s)  # type: ignore[type-var]
        self.topics = tuple(self._back_s)
        """All that are subscribed to, without prefix."""
        self._written = written_topics(self._back_s, settings.analyses)
        first = [topic for topic in self._written if self._back_s[topic] is None and topic not in _LAST]
        rest = [topic for topic in self._written if topic not in first]

        def start(topic: str) -> Start:
            back_s = self._back_s[topic]
            return "beginning" if back_s is None else max(0, round((wall() - back_s) * 1000))

        self._first, self._rest = (
            TopicReader(settings, name, topics, start, self.take) for topics in (first, rest)
        )
        self._taken: Counter[str] = Counter(dict.fromkeys(self._back_s, 0))
        self._newest_ms: dict[str, int] = {}
        metrics = telemetry.metrics
        metrics.read(RECORDS_TAKEN, lambda: {(topic,): float(n) for topic, n in self._taken.items()})
        metrics.read(
            WATERMARK_DELAY,
            lambda: {(topic,): wall() - ms / 1000 for topic, ms in list(self._newest_ms.items())},
        )

    def readiness_error(self, topics: Collection[str]) -> str | None:
        """Tell which of ``topics`` were not read yet as far as they were there at the start; None if all
        were."""
        unread = {*self._first.unread(topics), *self._rest.unread(topics)}
        return f"reading {', '.join(topic for topic in topics if topic in unread)}" if unread else None

    async def wait_until_read(self, topics: Iterable[str]) -> None:
        """Wait until all is read of ``topics`` that was there at the start."""
        caught_up = self._first.caught_up | self._rest.caught_up
        for topic in topics:
            if topic in caught_up:
                await caught_up[topic].wait()

    async def run(self) -> None:
        """Follow until cancelled; a broker that is away is waited for. Topics that no chosen analysis writes
        are left out."""

        async def read_rest() -> None:
            await self.wait_until_read(self._first.caught_up)
            await self._read(self._rest)

        await together(self._read(self._first), read_rest())

    async def _read(self, reader: TopicReader) -> None:
        if reader.caught_up:
            reachability = Reachability(self._settings, self._telemetry)
            await retry_until_reachable(lambda: reader.read(reachability.mark_up), reachability)

    def take(self, topic: str, message: ConsumerRecord) -> None:
        """Give a record to those who want it. One that cannot be read is counted, and given to nobody."""
        key = message.key or ""
        self._taken[topic] += 1
        # A clock that is ahead shall not hide that the rest stands still.
        newest_ms = heard_ms(message.ts_ms, self._wall())
        self._newest_ms[topic] = max(newest_ms, self._newest_ms.get(topic, 0))
        subscribers = [sub for sub in self._subscribers[topic] if sub.wants(topic, key, message.ts_ms)]
        for subscriber in subscribers:
            if subscriber.decodes:
                subscriber.take(topic, key, message.value)
        subscribers = [subscriber for subscriber in subscribers if not subscriber.decodes]
        if not subscribers:
            return
        record: Any = None
        reason = ""
        try:
            if message.value is not None:
                record = decode(TOPICS[topic].record, message.value, topic)
                if not TOPICS[topic].is_under_its_key(key, record):
                    reason = f"lies under the key {key!r:.80}, which is not its own"
        except DecodeError as error:  # the streams make a dead letter of a sample
            reason = error.brief
        if reason:
            where = f"{message.topic}-{message.partition}@{message.offset}: {reason}"
            self._telemetry.emit(RECORD_UNREADABLE, where, topic=topic)
            return
        for subscriber in subscribers:
            subscriber.take(topic, key, record)
