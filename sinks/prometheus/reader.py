"""Follows the topics into the view, without a consumer group: every process reads every partition.

So two processes show the same, and none has to know what another one holds. A process shows nothing before
it has come to the end of the topics: the newest part of each node has the counters, so that none is ever seen
to go down.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.consumer import Message, Start
from dutycycle.telemetry.events import Telemetry
from sinks.follow import TopicFollower
from sinks.prometheus.view import MetricsView
from sinks.tasks import together

COMPACTED = ("node-parts", "pods", "trends", "cycles", "insights", "gpu-health")
FOLLOWED = ("nvml-samples", "window-aggregates", "processes")
_FORGET_EVERY_S = 30.0


class MetricsReader:
    """Keeps ``view`` up to date. ``lock`` is held while it changes; ``caught_up`` once it can be shown."""

    def __init__(
        self,
        settings: Settings,
        telemetry: Telemetry,
        view: MetricsView,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.view = view
        self.lock = threading.Lock()
        self.caught_up = False
        self.newest_ms: dict[str, int] = {}
        self.taken: Counter[str] = Counter(dict.fromkeys((*COMPACTED, *FOLLOWED), 0))
        self._settings = settings
        self._follower = TopicFollower(settings, telemetry, "metrics")
        self._wall = wall
        self._loaded = asyncio.Event()
        self._next: dict[TopicPartition, int] = {}
        self._again: dict[TopicPartition, int] = {}
        """Of partitions that are read again after an outage: up to where."""

    async def run(self) -> None:
        """Follow until cancelled; a broker that is away is waited for."""
        await together(
            self._follower.follow(
                COMPACTED, lambda: "beginning", self.take_all, self._loaded.set, self.connected
            ),
            self._follow_recent(),
            self._forget_regularly(),
        )

    async def _follow_recent(self) -> None:
        """Follow what counts for some minutes only, once the rest is known."""
        await self._loaded.wait()

        def begin() -> Start:
            age_s = self._settings.metrics_window + self._settings.metrics_stale
            return max(0, round((self._wall() - age_s) * 1000))

        def done() -> None:
            self.caught_up = True

        await self._follower.follow(FOLLOWED, begin, self.take_all, done, self.connected)

    async def _forget_regularly(self) -> None:
        while True:
            await asyncio.sleep(_FORGET_EVERY_S)
            with self.lock:
                self.view.forget(round(self._wall() * 1000))

    def connected(self, ends: Mapping[TopicPartition, int]) -> None:
        """After an outage, go on where we were. A log that ends before that is another one, and is taken
        whole."""
        self._next = {place: at for place, at in self._next.items() if ends.get(place, at) >= at}
        for place in ends:
            self._again[place] = self._next.get(place, 0)

    def take_all(self, messages: Sequence[Message]) -> None:
        """Take records; a scrape looks before or after."""
        with self.lock:
            for message in messages:
                self.take(message)

    def take(self, message: Message) -> None:
        """Take one record; the lock is held. One that was taken before an outage changes nothing: what it
        says of a counter may be over. Lower offsets without an outage are of a topic that was made anew."""
        place = TopicPartition(message.topic, message.partition)
        if message.offset < self._again.get(place, 0):
            return
        self._again[place] = 0
        self._next[place] = message.offset + 1
        topic, key, record = self._follower.decoded(message)
        self.taken[topic] += 1
        if message.payload is None:
            self.view.remove(topic, key)
            return
        self.newest_ms[topic] = max(message.ts_ms, self.newest_ms.get(topic, 0))
        if record is not None:
            self.view.take(record)
