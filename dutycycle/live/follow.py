"""Follows the topics of a broker as any consumer would, in no group, and feeds a ``LiveState`` with them."""

import asyncio
import time
from contextlib import suppress

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.reachability import StoppedError, run_until
from dutycycle.live.model.state import LiveState
from dutycycle.view.reader import TopicReader

FROM_BEGINNING = ("pods", "pod-peaks", "job-peaks", "cycles", "trends", "insights", "gpu-health")
"""Compacted topics: what holds now may have been said long ago."""
FROM_END = ("nvml-samples", "cgroup-samples", "window-aggregates", "dead-letters")
_WAIT_S = 0.5
_BROKER_WAIT_MS = 1000
_AT_ONCE = 500
"""Records between two moments at which a key is heard."""
_IDLE_S = 3.0
_IDLE_WAIT_S = 15.0
_CLOCK_S = 1.0
_SAMPLES = ("pods", "nvml-samples", "cgroup-samples")
"""Without these there is nothing to see. All else may be missing: streams that do not compute it do not make
its topic, and it is shown as unknown."""


async def keep_time(state: LiveState) -> None:
    """Let the clock of a state go on, whether or not records come; until cancelled."""
    while True:
        state.at(time.time_ns() // 1_000_000)
        await asyncio.sleep(_CLOCK_S)


class ClusterFollower:
    """Keeps ``state`` up to date."""

    def __init__(self, settings: Settings, state: LiveState) -> None:
        self.state = state
        self._last_record_s = time.monotonic()
        topics = written_topics((*FROM_BEGINNING, *FROM_END), settings.analyses)

        def take_record(topic: str, record: ConsumerRecord) -> None:
            if topic != "dead-letters":
                self._last_record_s = time.monotonic()
            state.feed(topic, record.key or "", record.value, time.time_ns() // 1_000_000)

        self._reader = TopicReader(
            settings, "dutycycle-live", topics,
            lambda topic: "beginning" if topic in FROM_BEGINNING else "end", take_record,
            at_once=_AT_ONCE, wait_ms=_BROKER_WAIT_MS,
            optional={*topics} - {*_SAMPLES},
        )  # fmt: skip

    @property
    def is_caught_up(self) -> bool:
        """Tell whether all has been read that was said before."""
        return not self._reader.unread(self._reader.caught_up)

    @property
    def away(self) -> str:
        """Return why the broker cannot be read now; empty while it can."""
        return self._reader.away

    def problems(self) -> list[str]:
        """Return what keeps it from reading."""
        return [self.away] if self.away else []

    async def run(self, stop: asyncio.Event) -> None:
        """Read until ``stop``; a broker that is away is waited for."""
        clock = asyncio.create_task(keep_time(self.state))
        try:
            with suppress(StoppedError):
                await run_until(stop, self._reader.follow())
        finally:
            clock.cancel()

    async def wait_until_idle(self) -> None:
        """Wait until no record has come for a moment: the pipeline has worked off what it was given."""
        begun = time.monotonic()
        self._last_record_s = begun
        while self._reader.is_reading and time.monotonic() - begun < _IDLE_WAIT_S:
            if time.monotonic() - self._last_record_s > _IDLE_S:
                return
            await asyncio.sleep(_WAIT_S)
