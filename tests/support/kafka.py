"""Makes topics of a broker, and puts records on them, as any client would."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import Any

from dutycycle.contract.codec import encode
from dutycycle.contract.settings.groups import PREFIX, Settings
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import DEFAULT_PREFIX, TOPICS, full_name
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.kafka.producer import Producer
from dutycycle.kafka.topics import ensure_topics
from streams.names import changelogs
from tests.support.waiting import DEADLINE_S

Sent = tuple[str, str | None, Any] | tuple[str, str | None, Any, int | None]
"""Topic without prefix, key, record or payload, and its time if it is not that of all."""
PUBLIC = tuple(name for name, topic in TOPICS.items() if not topic.internal)
"""The topics that not only the streams read."""


def all_topics(partitions: int = 1, prefix: str = DEFAULT_PREFIX) -> dict[str, int]:
    """Full names of all topics, and of those with the streams' state, and how many partitions each has."""
    names = [*(full_name(prefix, name) for name in TOPICS), *changelogs(Settings(topic_prefix=prefix))]
    return dict.fromkeys(names, partitions)


def settings_of(env: Mapping[str, str]) -> Settings:
    """Read the settings of a process from its environment, which has more than them."""
    return load({name: value for name, value in env.items() if name.startswith(PREFIX)})


async def make_topics(settings: Settings, names: Iterable[str], outputs: Iterable[str] = ()) -> None:
    """Make topics, and try again as processes do: a busy broker does not answer each time in time."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await ensure_topics(settings, list(names), outputs=list(outputs))
            except BrokerUnreachableError:
                await asyncio.sleep(1)
            else:
                return


async def send(
    settings: Settings, records: Iterable[Sent], ts_ms: int | None = None
) -> list[tuple[int, int]]:
    """Put records on their topics in order, at ``ts_ms``, else now; the partition and offset of each."""
    producer = Producer(settings, "test", linger_ms=5)
    await producer.start()
    try:
        under_way = []
        for topic, key, record, *own_ms in records:
            payload = record if record is None or isinstance(record, bytes) else encode(record)
            at_ms = own_ms[0] if own_ms else ts_ms if ts_ms is not None else time.time_ns() // 1_000_000
            name = full_name(settings.topic_prefix, topic)
            under_way.append(await producer.send(name, key, payload, at_ms))
        await producer.settle(under_way)
        return [(delivery.result().partition, delivery.result().offset) for delivery in under_way]
    finally:
        await producer.stop()
