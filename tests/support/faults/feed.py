"""Publishes a trace at a pace while a test does its worst, and the rest at once when it has done."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Self

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import DEFAULT_PREFIX, SAMPLE_TOPICS, full_name
from dutycycle.contract.trace import TraceRecord
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.kafka.producer import Delivery, Producer
from tests.support.faults.sink_lives import Sent
from tests.support.kafka import make_topics

BEAT_S = 0.05


def dues(total: int, per_s: float) -> Iterator[int]:
    """How many of ``total`` records are due at each beat: ``per_s`` a second at first, ever fewer, never all.

    However long a test takes on a busy machine, something flows until the last of its faults.
    """
    due = 0.0
    while True:
        due += (total - due) * per_s * BEAT_S / max(total, 1)
        yield int(due)


class Feed:
    """An async context that publishes ``records``, acknowledged by the broker, until it is left.

    It begins with ``per_s`` of them a second, and becomes slower as they become fewer.
    """

    def __init__(self, settings: Settings, records: Sequence[TraceRecord | Sent], per_s: float) -> None:
        self._settings = settings
        self._records = records
        self._dues = dues(len(records), per_s)
        self._hurried = asyncio.Event()
        self._sending: asyncio.Task[None] | None = None
        self._deliveries: list[Delivery] = []

    @property
    def flows(self) -> bool:
        """Whether there is more to come."""
        return len(self._deliveries) < len(self._records)

    @property
    def stored(self) -> list[TraceRecord | Sent]:
        """Those that the broker has acknowledged."""
        pairs = zip(self._records, self._deliveries, strict=False)
        return [record for record, delivery in pairs if delivery.done()]

    async def __aenter__(self) -> Self:
        await make_topics(self._settings, SAMPLE_TOPICS)
        self._sending = asyncio.create_task(self._send())
        return self

    async def _send(self) -> None:
        producer = Producer(self._settings, "feed")
        await producer.start()
        try:
            while self.flows:
                until = len(self._records) if self._hurried.is_set() else next(self._dues)
                for record in self._records[len(self._deliveries) : until]:
                    self._deliveries.append(await _post(producer, self._settings.topic_prefix, record))
                await asyncio.sleep(0 if self._hurried.is_set() else BEAT_S)
            await producer.settle(self._deliveries)
        finally:
            await producer.abort()

    async def finish(self) -> None:
        """Publish the rest, as fast as the broker takes it."""
        self._hurried.set()
        assert self._sending
        await self._sending

    async def __aexit__(self, *error: object) -> None:
        assert self._sending
        self._sending.cancel()
        await asyncio.wait([self._sending])


async def _post(producer: Producer, prefix: str, record: TraceRecord | Sent) -> Delivery:
    topic = full_name(prefix, record.topic.removeprefix(DEFAULT_PREFIX))
    while True:
        try:
            return await producer.send(topic, record.key, record.payload, record.ts_ms)
        except BrokerUnreachableError:  # no room in time, and not taken: the broker has been away for long
            continue
