"""Keeps what is known of a cluster up to date. Each replica reads all: each may be asked for any node."""

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Protocol

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import short_name
from dutycycle.kafka.consumer import Message, Start
from dutycycle.telemetry.events import Telemetry
from sinks.follow import TopicFollower
from sinks.tasks import together

DESCRIBED = ("insights", "cycles", "gpu-health")
"""What a pod did is known before what it used: both are of the kin that it becomes when it has ended. With
them comes what else holds now and may have been said long ago."""
ENDED = ("pods", "pod-peaks")
SAMPLES = ("nvml-samples", "cgroup-samples")
AT_ONCE = 50
"""Some milliseconds of work, for which a question of the scheduler may have to wait."""


class RecordConsumer(Protocol):
    """What takes the records."""

    def wants(self, topic: str, key: str, ts_ms: int) -> bool:
        """Whether a record is worth decoding."""
        ...

    def take(self, key: str, record: Any) -> None:
        """A record; None is a tombstone of a pod."""
        ...


class SchedulingReader:
    """Reads until cancelled; a broker that is away is waited for.

    ``recent``: topics of which only what is younger than ``since_ms`` is read.
    """

    def __init__(
        self,
        settings: Settings,
        known: RecordConsumer,
        telemetry: Telemetry,
        recent: tuple[str, ...],
        since_ms: float,
    ) -> None:
        self._follower = TopicFollower(settings, telemetry, "dutycycle-scheduling", AT_ONCE)
        self._prefix = settings.topic_prefix
        self._known = known
        self._recent, self._since_ms = recent, since_ms
        self._behind = {DESCRIBED, ENDED, recent}
        self._described = asyncio.Event()
        self.caught_up = asyncio.Event()
        """Set when all is read that was there at the start."""

    def readiness_error(self) -> str | None:
        """What of the topics was not read yet that was there at the start; None if nothing."""
        return "reading " + ", ".join(map(", ".join, self._behind)) if self._behind else None

    async def run(self) -> None:
        """Pods and what they used from the beginning, the rest from a while ago on."""
        await together(self._follow(DESCRIBED), self._follow(self._recent), self._follow_ended())

    async def _follow_ended(self) -> None:
        await self._described.wait()
        await self._follow(ENDED)

    async def _follow(self, topics: tuple[str, ...]) -> None:
        def begin() -> Start:
            return round(time.time() * 1000 - self._since_ms) if topics == self._recent else "beginning"

        def reached() -> None:
            self._behind.discard(topics)
            if topics == DESCRIBED:
                self._described.set()
            if not self._behind:
                self.caught_up.set()

        await self._follower.follow(topics, begin, self._take, reached)

    def _take(self, messages: Sequence[Message]) -> None:
        for message in messages:
            name = short_name(self._prefix, message.topic) or ""
            if not self._known.wants(name, message.key_text or "", message.ts_ms):
                continue
            _, key, record = self._follower.decoded(message)
            if record is not None or (message.payload is None and name == "pods"):
                self._known.take(key, record)
