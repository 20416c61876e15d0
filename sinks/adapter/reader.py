"""Keeps the figures up to date: reads every partition of the derived topics, in no consumer group.

Each replica of the adapter reads all, because each may be asked for any pod.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from bus.kafka.consumer import Consumer, Message, Start
from bus.kafka.errors import BrokerError
from bus.kafka.reachability import Reachability
from contract.backoff import Backoff
from contract.codec import DecodeError, decode
from contract.settings.groups import Settings
from contract.topics import TOPICS, full_name, short_name
from sinks.adapter.figures import Figures
from sinks.events import DERIVED, RECORD_UNREADABLE
from telemetry.events import Telemetry

_WINDOWS = ("window-aggregates",)
_COMPACTED = tuple(name for name in DERIVED if name not in _WINDOWS)
_TAKE_S = 0.5
_MOST = 2000
_LOOK_BACK_MS = 180_000
"""So old are the windows that a start begins with: figures are there at once."""


class Reader:
    """Reads until cancelled; a broker that is away is waited for."""

    def __init__(self, settings: Settings, current: Figures, telemetry: Telemetry) -> None:
        self._settings = settings
        self._figures = current
        self._telemetry = telemetry
        self._behind = {_COMPACTED, _WINDOWS}

    def readiness_error(self) -> str | None:
        """What of the topics was not read yet that was there at the start; None if nothing."""
        return "reading " + ", ".join(map(", ".join, self._behind)) if self._behind else None

    async def run(self) -> None:
        """Identities and cycles from the beginning, windows from now on."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._read(_COMPACTED))
            group.create_task(self._read(_WINDOWS))

    async def _read(self, topics: Sequence[str]) -> None:
        names = [full_name(self._settings.topic_prefix, name) for name in topics]
        reachability, backoff = Reachability(self._settings, self._telemetry), Backoff()
        while True:
            begin: Start = "beginning" if topics == _COMPACTED else _now_ms() - _LOOK_BACK_MS
            consumer = Consumer(self._settings, "dutycycle-adapter", names, begin)
            try:
                await consumer.start()
                reachability.mark_up()
                backoff.reset()
                await self._take(consumer, tuple(topics))
            except BrokerError as error:
                reachability.mark_down(error)
            finally:
                await consumer.stop()
            await asyncio.sleep(backoff.next_s())

    async def _take(self, consumer: Consumer, topics: tuple[str, ...]) -> None:
        ends = await consumer.ends()
        while True:
            for message in await consumer.take(_TAKE_S, _MOST):
                self._feed(message)
            if topics in self._behind and await consumer.reached(ends):
                self._behind.discard(topics)
            await asyncio.sleep(0)

    def _feed(self, message: Message) -> None:
        topic = short_name(self._settings.topic_prefix, message.topic) or ""
        try:
            key = (message.key or b"").decode()
            record: Any = None
            if message.payload is not None:
                record = decode(TOPICS[topic].record, message.payload, topic)
        except (DecodeError, UnicodeDecodeError) as error:
            where = f"{message.topic}-{message.partition}@{message.offset}: {error}"
            self._telemetry.emit(RECORD_UNREADABLE, where, topic=topic)
            return
        self._figures.take(topic, key, record)


def _now_ms() -> int:
    return round(time.time() * 1000)
