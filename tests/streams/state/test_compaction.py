"""A changelog that the real Kafka has compacted: a worker that begins with it goes on as if it were whole."""

import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Self

from dutycycle.contract.log import ConsumerRecord, ProducerRecord, key_bytes
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.producer import Producer
from streams.state.record import clock_key, name_of
from tests.streams.runtime.test_eviction import in_process, spans
from tests.support.kafka import settings_of
from tests.support.processes.commands import environ, mortal
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.streams.spans import AT_ONCE, CLOSED, STRIDE_MS, log_of
from tests.support.streams.toy import SOURCE
from tests.support.waiting import DEADLINE_S, wait_until

GENERATIONS = 40


async def stored(settings: Settings) -> list[ConsumerRecord]:
    """All that the changelog holds now."""
    consumer = Consumer(settings, "test", [settings.topic_prefix + "state-spans"], "beginning")
    await consumer.start()
    found: list[ConsumerRecord] = []
    try:
        ends = await consumer.ends()
        while not await consumer.reached(ends):
            found += await consumer.take(0.2)
    finally:
        await consumer.stop()
    return found


class Feed:
    """Sends records, and waits until a worker has answered each of them."""

    def __init__(self, settings: Settings, log: Path) -> None:
        self._prefix = settings.topic_prefix
        self._producer = Producer(settings, "test")
        self._reader = Consumer(
            settings, "test", [self._prefix + AT_ONCE, self._prefix + CLOSED], "beginning"
        )
        self._log = log
        self.sent: list[ConsumerRecord] = []
        self.came: list[ProducerRecord] = []

    async def __aenter__(self) -> Self:
        await self._producer.start()
        await self._reader.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._producer.stop()
        await self._reader.stop()

    async def send(self, *times: tuple[str, int]) -> None:
        records = log_of(*times)
        topic = self._prefix + SOURCE
        await self._producer.settle(
            [await self._producer.send(topic, one.key, one.value, one.ts_ms) for one in records]
        )
        self.sent += records
        wanted = Counter(one.key for one in self.sent)
        await self.read_until(
            lambda: not wanted - Counter(out.key for out in self.came if out.topic == AT_ONCE)
        )

    async def read_until(self, done: Callable[[], bool]) -> None:
        """Read what the workers write, until enough of it has come."""
        deadline = time.monotonic() + DEADLINE_S
        while not done():
            assert time.monotonic() < deadline, self._log.read_text()
            for one in await self._reader.take(0.5):
                topic = one.topic.removeprefix(self._prefix)
                self.came.append(ProducerRecord(topic, one.key or "", one.value, one.ts_ms))


def generation(number: int) -> list[tuple[str, int]]:
    """A key comes, and goes for good; another is always there."""
    now_ms = 2 * number * STRIDE_MS
    return [("here", now_ms), (f"job-{number}", now_ms), ("here", now_ms + STRIDE_MS)]


def states(changelog: list[ConsumerRecord]) -> Counter[str]:
    """How many states of each key a changelog holds."""
    return Counter(
        name
        for one in changelog
        if one.value is not None and (name := name_of(key_bytes(one.key) or b"")) is not None
    )


async def test_a_worker_begins_with_what_compaction_has_left(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    compact = {"cleanup_policy": "compact", "segment_ms": "200", "min_cleanable_dirty_ratio": "0.01",
               "delete_retention_ms": "100", "max_compaction_lag_ms": "200"}  # fmt: skip
    kafka.create_topics({topic_prefix + "state-spans": 1}, **compact)
    env = environ(
        broker=kafka.url, topic_prefix=topic_prefix, session_timeout="6s", partitions="1",
        snapshot_interval="100ms",
    )  # fmt: skip
    settings, log = settings_of(env), tmp_path / "worker.log"
    worker = partial(mortal, env=env, log=log, start=[sys.executable, "-m", "tests.support.streams.spans"])
    with worker():
        wait_until(lambda: topic_prefix + CLOSED in topics_of(kafka), log.read_text)
        async with Feed(settings, log) as feed:
            for number in range(GENERATIONS):
                await feed.send(*generation(number))
            last = GENERATIONS
            deadline = time.monotonic() + DEADLINE_S
            while not compacted(changelog := await stored(settings)):
                assert time.monotonic() < deadline, (states(changelog), log.read_text())
                await feed.send(*generation(last))  # the broker leaves alone the segment that it writes to
                last += 1
    async with Feed(settings, log) as after:
        with worker():
            after.sent = feed.sent
            now_ms = 2 * last * STRIDE_MS
            await after.send(*generation(last), ("job-1", now_ms), ("here", now_ms))
            # The others may still be there.
            await after.read_until(lambda: len(spans(after.came)) >= GENERATIONS - 15)
    at_once, ended = in_process(after.sent)
    assert spans(after.came, AT_ONCE) == at_once
    assert spans(after.came) <= ended
    assert any(key_bytes(one.key) == clock_key(0) for one in changelog)


def topics_of(kafka: RunningBroker) -> set[str]:
    return set(kafka.admin().list_topics(timeout=60).topics)


def compacted(changelog: list[ConsumerRecord]) -> bool:
    """Whether the broker has: most of what was written is gone, and every state of the keys that left."""
    gone = {f"job-{number}" for number in range(GENERATIONS - 20)}
    written = changelog[-1].offset + 1 if changelog else 0
    return bool(changelog) and len(changelog) < written / 2 and not gone & states(changelog).keys()
