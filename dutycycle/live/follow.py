"""Follows the topics of a broker as any consumer would, in no group, and feeds a ``LiveState`` with them."""

import asyncio
import time
from collections.abc import Collection

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name, short_name
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.errors import BrokerError
from dutycycle.kafka.topics import topics_there
from dutycycle.live.model.state import LiveState
from dutycycle.process import stopped_within

_FROM_BEGINNING = ("pods", "pod-peaks", "job-peaks", "cycles", "trends", "insights", "gpu-health")
"""Compacted topics: what holds now may have been said long ago."""
_FROM_END = ("nvml-samples", "cgroup-samples", "window-aggregates", "dead-letters")
_WAIT_S = 0.5
_BROKER_WAIT_MS = 1000
_AT_ONCE = 500
"""Records between two moments at which a key is heard."""
_IDLE_S = 3.0
_IDLE_WAIT_S = 15.0
_RETRY_S = 1.0
_SAMPLES = ("pods", "nvml-samples", "cgroup-samples")
"""Without these there is nothing to see. All else may be missing: streams that do not compute it do not make
its topic, and it is shown as unknown."""
_LOOK_S = 30.0
"""So often topics that are missing are looked for: streams may only just begin."""


class ClusterFollower:
    """Keeps ``state`` up to date. ``away``: why the broker cannot be read now; empty while it can."""

    def __init__(self, settings: Settings, state: LiveState) -> None:
        self.state = state
        self.away = ""
        self.caught_up = asyncio.Event()
        """Set once everything that was said before has been read."""
        self._settings = settings
        self._last_record_s = time.monotonic()
        self._is_reading = False

    def problems(self) -> list[str]:
        """What keeps it from reading."""
        return [self.away] if self.away else []

    async def run(self, stop: asyncio.Event) -> None:
        """Read until ``stop``; a broker that is away is waited for."""
        names, whole, needed = (
            [
                full_name(self._settings.topic_prefix, name)
                for name in written_topics(topics, self._settings.analyses)
            ]
            for topics in ((*_FROM_BEGINNING, *_FROM_END), _FROM_BEGINNING, _SAMPLES)
        )
        while not stop.is_set():
            consumer = None
            try:
                missing = {*names} - {*needed} - {*await topics_there(self._settings, names)}
                consumer = Consumer(
                    self._settings, "dutycycle-live", [name for name in names if name not in missing],
                    {name: "beginning" if name in whole else "end" for name in names},
                    wait_ms=_BROKER_WAIT_MS,
                )  # fmt: skip
                await consumer.start()
                await self._take(consumer, stop, missing)
            except BrokerError as error:
                self.away = str(error)
                await stopped_within(stop, _RETRY_S)
            finally:
                if consumer is not None:
                    await consumer.stop()

    async def wait_until_idle(self) -> None:
        """Wait until no record has come for a moment: the pipeline has worked off what it was given."""
        begun = time.monotonic()
        self._last_record_s = begun
        while self._is_reading and time.monotonic() - begun < _IDLE_WAIT_S:
            if time.monotonic() - self._last_record_s > _IDLE_S:
                return
            await asyncio.sleep(_WAIT_S)

    async def _take(self, consumer: Consumer, stop: asyncio.Event, missing: Collection[str]) -> None:
        """Read until ``stop``, or until one of the topics ``missing`` is there."""
        self._is_reading = True
        look_s = time.monotonic() + _LOOK_S
        self.away = ""
        ends = await consumer.ends()
        try:
            while not stop.is_set():
                if not self.caught_up.is_set() and await consumer.reached(ends):
                    self.caught_up.set()
                messages = await consumer.take(_WAIT_S, _AT_ONCE)
                if not messages:
                    consumer.refuse_silence()
                for message in messages:
                    topic = short_name(self._settings.topic_prefix, message.topic) or ""
                    if topic != "dead-letters":
                        self._last_record_s = time.monotonic()
                    self.state.feed(topic, message.key_text or "", message.payload, _now_ms())
                await asyncio.sleep(0)  # what was fetched already comes without a pause
                if missing and time.monotonic() > look_s:
                    look_s = time.monotonic() + _LOOK_S
                    if await topics_there(self._settings, missing):
                        return
        finally:
            self._is_reading = False


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
