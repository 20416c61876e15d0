"""Reads what the workers put out while they are at it, as any consumer of the topics would."""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Self

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name, short_name
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.errors import BrokerError
from tests.support.faults.oracle import DERIVED
from tests.support.processes.commands import Derived
from tests.support.waiting import until


class Tap:
    """An async context: ``found`` grows by what lies on the topics, from their beginning."""

    def __init__(self, settings: Settings, topics: Sequence[str] = DERIVED) -> None:
        self._settings = settings
        self._topics = topics
        self._reading: asyncio.Task[None] | None = None
        self.found: Derived = defaultdict(list)
        self.count = 0

    async def __aenter__(self) -> Self:
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._reading
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def _read(self) -> None:
        consumer = await self._connected()
        try:
            while True:
                try:
                    await self._take(consumer)
                except BrokerError:  # away for a while: it reconnects by itself, and goes on where it was
                    await asyncio.sleep(0.2)
        finally:
            await consumer.stop()

    async def _connected(self) -> Consumer:
        names = [full_name(self._settings.topic_prefix, topic) for topic in self._topics]
        while True:
            consumer = Consumer(self._settings, "tap", names, "beginning")
            try:
                await consumer.start()
            except BrokerError:  # no broker yet, or no topics
                await asyncio.sleep(0.2)
            else:
                return consumer

    async def _take(self, consumer: Consumer) -> None:
        for message in await consumer.take(0.3):
            topic = short_name(self._settings.topic_prefix, message.topic) or ""
            self.found[topic, message.key or ""].append(message.value or b"")
            self.count += 1

    async def more(self, what: Callable[[], str]) -> None:
        """Wait until something new comes out."""
        before = self.count
        await until(lambda: self.count > before, what)
