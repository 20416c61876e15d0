"""The publisher on the embedded broker and on Apache Kafka, with outages under load."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from collectors.publish.link import KafkaLink
from collectors.publish.outbox import Outbox
from collectors.publish.publisher import Publisher, PublishTimeouts
from collectors.publish.spool import Spool
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.contract.topics import SAMPLE_TOPICS, full_name
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.reachability import Reachability
from dutycycle.telemetry.events import BROKER_UNREACHABLE, SPOOL_DROPPED, SPOOLED, Telemetry
from tests.support.fakes.interruptible_broker import InterruptibleBroker
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until

MIB = 1024**2
NODES = ("a", "b", "c")


class Load:
    """Publishes ticks of three nodes until told to stop, and knows what it published."""

    def __init__(
        self, settings: Settings, folder: Path, *, spool_s: float = 0.3, renew_s: float = 120.0
    ) -> None:
        self.settings = settings
        self.telemetry = Telemetry("test")
        self.spool = Spool(folder, 64 * MIB)
        self.outbox = Outbox(self.spool, self.telemetry, 16 * MIB)
        self.publisher = Publisher(
            self.outbox, self.telemetry, Reachability(settings, self.telemetry),
            lambda: KafkaLink.open(settings), timeouts=PublishTimeouts(spool_s=spool_s, renew_s=renew_s),
        )  # fmt: skip
        self.sending = self.publisher.start()
        self.count = 0
        self._ticking = asyncio.create_task(self._tick())

    async def _tick(self) -> None:
        while True:
            self.publish()
            await asyncio.sleep(0.005)

    def publish(self) -> None:
        """One tick of each node."""
        n = self.count
        self.publisher.publish(
            [ProducerRecord(topic="cgroup-samples", key=node, value=b"%d" % n, ts_ms=n) for node in NODES]
        )
        self.count += 1

    async def quiet(self) -> None:
        """Publish no more."""
        self._ticking.cancel()
        await asyncio.wait({self._ticking})

    async def delivered(self) -> None:
        """Publish no more, and see all acknowledged: closing while the broker is slow leaves it on disk."""
        await self.quiet()
        await until(lambda: len(self.outbox) == 0)

    async def close(self, most_s: float = 30.0) -> None:
        await self.quiet()
        await self.publisher.close(most_s)


@asynccontextmanager
async def load(settings: Settings, folder: Path) -> AsyncIterator[Load]:
    one = Load(settings, folder)
    try:
        yield one
    finally:
        await one.close()


async def read(settings: Settings) -> dict[str, list[int]]:
    """What lies on the topic, by node, in order."""
    topic = full_name(settings.topic_prefix, "cgroup-samples")
    consumer = Consumer(settings, "test", [topic], "beginning")
    await consumer.start()
    found: dict[str, list[int]] = {node: [] for node in NODES}
    ends = await consumer.ends()
    end = time.monotonic() + 240
    while not await consumer.reached(ends):
        assert time.monotonic() < end
        for one in await consumer.take(0.5):
            assert one.key is not None
            assert one.value == b"%d" % one.ts_ms
            found[one.key].append(one.ts_ms)
    await consumer.stop()
    return found


def assert_complete(found: dict[str, list[int]], count: int, *, duplicates: bool = False) -> None:
    """Every tick of every node is there, first seen in order; each once, unless ``duplicates`` are fair."""
    for numbers in found.values():
        assert list(dict.fromkeys(numbers)) == list(range(count))
        if not duplicates:
            assert len(numbers) == count


@pytest.fixture
def embedded() -> Iterator[InterruptibleBroker]:
    with InterruptibleBroker({full_name("dutycycle.", name): 3 for name in SAMPLE_TOPICS}) as broker:
        yield broker


def to(url: str, prefix: str = "dutycycle.") -> Settings:
    return load_settings({"DUTYCYCLE_BROKER": url, "DUTYCYCLE_NODE": "a", "DUTYCYCLE_TOPIC_PREFIX": prefix})


async def test_embedded_outages_under_load(embedded: InterruptibleBroker, tmp_path: Path) -> None:
    settings = to(embedded.url)
    async with load(settings, tmp_path) as one:
        await until(lambda: one.count > 20 and len(one.outbox) < 10)
        for _ in range(2):
            embedded.set_down()
            await until(lambda: len(one.spool) > 60)
            embedded.set_up()
            await until(lambda: len(one.spool) == 0)
        assert one.telemetry.count(BROKER_UNREACHABLE) >= 2
        await one.delivered()
        assert not one.telemetry.conditions
    assert one.telemetry.count(SPOOLED) > 100
    assert one.telemetry.count(SPOOL_DROPPED) == 0
    assert_complete(await read(settings), one.count)


async def test_embedded_short_outage_while_idle(embedded: InterruptibleBroker, tmp_path: Path) -> None:
    settings = to(embedded.url)
    async with load(settings, tmp_path) as one:
        await until(lambda: one.count > 5)
        await one.delivered()
        embedded.set_down()
        await asyncio.sleep(0.1)
        embedded.set_up()
        one.publish()
        await one.delivered()
    assert_complete(await read(settings), one.count)


async def test_embedded_longer_away_than_a_producer_is_kept(
    embedded: InterruptibleBroker, tmp_path: Path
) -> None:
    settings = to(embedded.url)
    one = Load(settings, tmp_path, spool_s=0.1, renew_s=0.5)
    await until(lambda: one.count > 5)
    embedded.set_down()
    await until(lambda: len(one.telemetry.conditions) >= 2)  # given up once, and refused since
    embedded.set_up()
    await one.delivered()
    await one.close()
    assert_complete(await read(settings), one.count, duplicates=True)


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_real_kafka_is_stopped_and_started_under_load(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, end: str
) -> None:
    settings = to(kafka.url, topic_prefix)
    async with load(settings, tmp_path) as one:
        await until(lambda: one.count > 100 and len(one.outbox) < 10)
        await asyncio.to_thread(getattr(kafka, end))
        await until(lambda: len(one.spool) > 300)
        await asyncio.to_thread(kafka.start)
        await until(lambda: len(one.spool) == 0)
        published = one.count
        await until(lambda: one.count > published + 50)
        await one.delivered()
        assert not one.telemetry.conditions
    assert one.telemetry.count(SPOOL_DROPPED) == 0
    # A broker that is stopped may store a batch, disown it in its answer, and take it again when it is back
    # (seen in its log: the same producer id and sequence number in two batches). Once is all it may do.
    found = await read(settings)
    assert_complete(found, one.count, duplicates=True)
    assert all(number <= 2 for seen in found.values() for number in Counter(seen).values())


async def test_real_kafka_with_tls_and_scram(secure_kafka: RunningBroker, tmp_path: Path) -> None:
    settings = load_settings(
        secure_kafka.settings() | {"DUTYCYCLE_TOPIC_PREFIX": secure_kafka.new_prefix(), "DUTYCYCLE_NODE": "a"}
    )
    async with load(settings, tmp_path) as one:
        await until(lambda: one.count > 50)
        await one.delivered()
    assert_complete(await read(settings), one.count)


async def test_real_kafka_refuses_a_record_alone(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    """A topic of somebody else's making takes less than ours: the others still arrive."""
    settings = to(kafka.url, topic_prefix)
    kafka.create_topics({topic_prefix + name: 1 for name in SAMPLE_TOPICS}, max_message_bytes="20000")
    async with load(settings, tmp_path) as one:
        await until(lambda: one.count > 20)
        await one.delivered()
        one.publish()
        one.publisher.publish(
            [ProducerRecord(topic="pods", key="a", value=_incompressible(100_000), ts_ms=1)]
        )
        one.publish()
        await one.delivered()
    assert one.telemetry.counts["record_too_large", ("pods",)] == 1
    assert_complete(await read(settings), one.count)


def _incompressible(size: int) -> bytes:
    return random.Random(1).randbytes(size)  # noqa: S311 - not a secret
