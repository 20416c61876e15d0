"""Follows the topics into the view, without a consumer group: every process reads every partition.

So two processes show the same, and none has to know what another one holds. The counters of each node are
kept on ``node-usage``. A process that starts reads them, and then the samples from where they end; it shows
nothing before it has come to the end of the topics, so that no counter is ever seen to go down.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence

from dutycycle.contract.codec import encode
from dutycycle.contract.log import TopicPartition
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import full_name
from dutycycle.kafka.consumer import Message, Start
from dutycycle.kafka.producer import Producer
from dutycycle.kafka.reachability import Reachability, retry_until_reachable
from dutycycle.telemetry.events import Telemetry
from sinks.follow import Offsets, TopicFollower
from sinks.prometheus.view import MetricsView
from sinks.tasks import together

SAMPLES = "nvml-samples"
STATE = "node-usage"
COMPACTED = (STATE, "pods", "trends", "cycles", "insights", "gpu-health")
FOLLOWED = (SAMPLES, "window-aggregates", "processes")


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
        self._reachability = Reachability(settings, telemetry)
        self._wall = wall
        self._loaded = asyncio.Event()
        self._next: dict[int, int] = {}
        self._complete: dict[int, int] = {}
        self._saved: dict[str, int] = {}

    async def run(self) -> None:
        """Follow and save until cancelled; a broker that is away is waited for."""
        await together(
            self._follower.follow(COMPACTED, lambda: ("beginning", {}), self.take_all, self._loaded.set),
            self._samples(),
            retry_until_reachable(self._save_regularly, self._reachability),
        )

    async def _samples(self) -> None:
        await self._loaded.wait()

        def done() -> None:
            self.caught_up = True

        await self._follower.follow(FOLLOWED, self.begin, self.take_all, done, self.connected)

    def begin(self) -> tuple[Start, Offsets]:
        """Windows and samples that count now; of a partition that was read, or saved, from there on."""
        begin_ms = round((self._wall() - self._settings.metrics_window - self._settings.metrics_stale) * 1000)
        topic = full_name(self._settings.topic_prefix, SAMPLES)
        places = {**self.view.complete_to, **self._next}
        return max(0, begin_ms), {TopicPartition(topic, number): at for number, at in places.items()}

    def connected(self, ends: Offsets) -> None:
        """A log that ends before the place where we were is another log: it is read from its beginning."""
        for place, offset in self.begin()[1].items():
            if ends.get(place, offset) < offset:
                with self.lock:
                    self.view.partition_moved(place.partition)
                self._next.pop(place.partition, None)
                self._complete.pop(place.partition, None)

    def take_all(self, messages: Sequence[Message]) -> None:
        """Take records; a scrape looks before or after."""
        with self.lock:
            for message in messages:
                self.take(message)

    def take(self, message: Message) -> None:
        """Take one record; the lock is held."""
        topic, key, record = self._follower.decoded(message)
        self.taken[topic] += 1
        if message.payload is None:
            self.view.remove(topic, key)
            return
        self.newest_ms[topic] = max(message.ts_ms, self.newest_ms.get(topic, 0))
        if topic == SAMPLES:
            self._complete.setdefault(message.partition, message.offset)
            self._next[message.partition] = message.offset + 1
            if record is not None:
                self.view.sample(record, message.partition, message.offset)
        elif record is not None:
            self.view.take(record)

    async def _save_regularly(self) -> None:
        producer = Producer(self._settings, "metrics")
        await producer.start()
        self._reachability.mark_up()
        try:
            while True:
                await asyncio.sleep(self._settings.snapshot_interval)
                await self.save(producer)
        except asyncio.CancelledError:
            await self.save(producer)  # the runner gives us a moment
            raise
        finally:
            await producer.abort()

    async def save(self, producer: Producer) -> None:
        """Store the counters that changed. Where a reader begins is moved on by the next call, when all of
        these are safe."""
        if not self.caught_up:
            return
        topic = full_name(self._settings.topic_prefix, STATE)
        with self.lock:
            gone = list(self.view.forget(round(self._wall() * 1000)))
            changed = {
                name: (node.offset, node.ts_ms, node.record(name, self._complete.get(node.partition, 0)))
                for name, node in self.view.nodes.items()
                if self._saved.get(name) != node.offset
            }
            reached = dict(self._next)
        sent = [
            await producer.send(topic, name, encode(one), ts_ms) for name, (_, ts_ms, one) in changed.items()
        ]
        sent += [await producer.send(topic, name, None, None) for name in gone]
        await producer.settle(sent)
        self._saved |= {name: offset for name, (offset, _, _) in changed.items()}
        self._complete |= reached
