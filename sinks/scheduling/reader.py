"""Keeps what is known of a cluster up to date. Each replica reads all: each may be asked for any node."""

import asyncio
import time
from collections.abc import Sequence

from bus.kafka.consumer import Message, Start
from contract.settings.groups import Settings
from contract.topics import short_name
from sinks.follow import Follower, Offsets
from sinks.scheduling.known import STALE_MS, KnownCluster
from telemetry.events import Telemetry

DESCRIBED = ("insights", "cycles")
"""What a pod did is known before what it used: both are of the kin that it becomes when it has ended."""
ENDED = ("pods", "pod-peaks")
SAMPLES = ("nvml-samples", "cgroup-samples")


class Reader:
    """Reads until cancelled; a broker that is away is waited for."""

    def __init__(self, settings: Settings, known: KnownCluster, telemetry: Telemetry) -> None:
        self._follower = Follower(settings, telemetry, "dutycycle-extender")
        self._prefix = settings.topic_prefix
        self._known = known
        self._behind = {DESCRIBED, ENDED, SAMPLES}
        self._described = asyncio.Event()
        self.caught_up = asyncio.Event()
        """Set when all is read that was there at the start."""

    def readiness_error(self) -> str | None:
        """What of the topics was not read yet that was there at the start; None if nothing."""
        return "reading " + ", ".join(map(", ".join, self._behind)) if self._behind else None

    async def run(self) -> None:
        """Pods and what they used from the beginning, samples from now on."""
        await asyncio.gather(self._follow(DESCRIBED), self._follow(SAMPLES), self._follow_ended())

    async def _follow_ended(self) -> None:
        await self._described.wait()
        await self._follow(ENDED)

    async def _follow(self, topics: tuple[str, ...]) -> None:
        def begin() -> tuple[Start, Offsets]:
            return round(time.time() * 1000) - STALE_MS if topics == SAMPLES else "beginning", {}

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
