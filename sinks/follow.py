"""Follows topics without a consumer group: every process reads every partition, so any two know the same."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS, full_name, short_name
from dutycycle.kafka.consumer import Consumer, Message, Start
from dutycycle.kafka.reachability import Reachability, retry_until_reachable
from dutycycle.telemetry.events import Telemetry
from sinks.events import RECORD_UNREADABLE

_WAIT_S = 0.5


@dataclass(frozen=True)
class TopicFollower:
    """``name``: of the Kafka client. What waiting for a broker does not mend is raised.

    ``at_once``: records between two moments at which others may look.
    """

    settings: Settings
    telemetry: Telemetry
    name: str
    at_once: int = 500

    async def follow(
        self,
        topics: Sequence[str],
        begin: Callable[[], Start],
        take: Callable[[Sequence[Message]], None],
        reached: Callable[[], None],
        connected: Callable[[Mapping[TopicPartition, int]], None] = lambda ends: None,
    ) -> None:
        """Give records to ``take`` until cancelled. After each outage ``begin`` says from where. Returns if
        no chosen analysis writes any of ``topics``.

        ``connected`` is told where the partitions end; ``reached`` is called when that much was given out.
        """
        names = [
            full_name(self.settings.topic_prefix, name)
            for name in written_topics(topics, self.settings.analyses)
        ]
        if not names:
            reached()
            return
        reachability = Reachability(self.settings, self.telemetry)

        async def read() -> None:
            consumer = Consumer(self.settings, self.name, names, begin())
            try:
                await consumer.start()
                ends = await consumer.ends()
                reachability.mark_up()
                connected(ends)
                while True:
                    if ends and await consumer.reached(ends):
                        ends = {}
                        reached()
                    take(await consumer.take(_WAIT_S, self.at_once))
                    await asyncio.sleep(0)  # what was fetched already comes without a pause
            finally:
                await consumer.stop()

        await retry_until_reachable(read, reachability)

    def decoded(self, message: Message) -> tuple[str, str, Any]:
        """Topic (without prefix), key and record; None for a tombstone, and for what cannot be read."""
        topic = short_name(self.settings.topic_prefix, message.topic) or ""
        record: Any = None
        try:
            if message.payload is not None:
                record = decode(TOPICS[topic].record, message.payload, topic)
        except DecodeError as error:  # the streams make a dead letter of a sample
            where = f"{message.topic}-{message.partition}@{message.offset}: {error.brief}"
            self.telemetry.emit(RECORD_UNREADABLE, where, topic=topic)
        return topic, message.key_text or "", record
