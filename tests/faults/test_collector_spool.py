"""The broker away for longer than memory and spool can hold, and a full disk: what is lost is counted.

On the real Kafka: the collector's publisher with bounds so small that a test reaches them, records that
cannot be compressed, and a file system that is really full.
"""

import asyncio
import random
import resource
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from collectors.publish.link import KafkaLink
from collectors.publish.outbox import Outbox
from collectors.publish.publisher import Publisher, PublishTimeouts
from collectors.publish.spool import Spool
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.contract.topics import full_name
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.reachability import Reachability
from dutycycle.telemetry.events import SPOOL_DROPPED, SPOOL_FAILED, SPOOLED, Telemetry
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until

MIB = 1024**2
MEMORY_BYTES = 400_000
SIZE = 2_000


class Sender:
    """A publisher whose records are numbered by their ``ts_ms``."""

    def __init__(self, settings: Settings, folder: Path, spool_bytes: int) -> None:
        self.settings = settings
        self.telemetry = Telemetry("test")
        self.spool = Spool(folder, spool_bytes)
        self.outbox = Outbox(self.spool, self.telemetry, MEMORY_BYTES)
        self.publisher = Publisher(
            self.outbox, self.telemetry, Reachability(settings, self.telemetry),
            lambda: KafkaLink.open(settings),
            timeouts=PublishTimeouts(spool_s=0.3, renew_s=120.0),
        )  # fmt: skip
        self.publisher.start()
        self._noise = random.Random(1)  # noqa: S311 - not a secret
        self.count = 0

    @property
    def dropped(self) -> int:
        return self.telemetry.count(SPOOL_DROPPED)

    async def publish(self, count: int) -> None:
        """So many records, one at a time: the queue has a turn between."""
        for _ in range(count):
            payload = self._noise.randbytes(SIZE)
            record = ProducerRecord(topic="cgroup-samples", key="a", value=payload, ts_ms=self.count)
            self.publisher.publish([record])
            self.count += 1
            await asyncio.sleep(0.002)

    async def drained(self) -> list[int]:
        """The numbers on the broker, in order, once nothing waits."""
        await until(lambda: len(self.outbox) == 0)
        topic = full_name(self.settings.topic_prefix, "cgroup-samples")
        consumer = Consumer(self.settings, "test", [topic], "beginning")
        await consumer.start()
        found: list[int] = []
        ends = await consumer.ends()
        while not await consumer.reached(ends):
            found += [one.ts_ms for one in await consumer.take(0.5)]
        await consumer.stop()
        return found


@asynccontextmanager
async def sender(kafka: RunningBroker, prefix: str, folder: Path, spool_bytes: int) -> AsyncIterator[Sender]:
    settings = load_settings(
        {"DUTYCYCLE_BROKER": kafka.url, "DUTYCYCLE_NODE": "a", "DUTYCYCLE_TOPIC_PREFIX": prefix,
         "DUTYCYCLE_PARTITIONS": "1"}
    )  # fmt: skip
    one = Sender(settings, folder, spool_bytes)
    try:
        yield one
    finally:
        await one.publisher.close(10)


def assert_one_hole(found: list[int], one: Sender) -> int:
    """Everything arrived in order but the dropped ones, which are exactly so many; returns the repeats."""
    seen = list(dict.fromkeys(found))
    assert seen == sorted(seen)
    assert one.count - len(seen) == one.dropped
    return len(found) - len(seen)


async def test_loss_begins_past_the_bound_and_is_counted(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    async with sender(kafka, topic_prefix, tmp_path, MIB) as one:
        await one.publish(20)
        await until(lambda: len(one.outbox) == 0)
        await asyncio.to_thread(kafka.stop)
        await one.publish(10)
        await until(lambda: len(one.spool) >= 10)
        await one.publish(290)
        await until(lambda: len(one.spool) >= 300)
        assert one.dropped == 0, "more than memory holds, less than the spool: nothing is lost"
        await one.publish(900)
        await until(lambda: one.dropped > 0 and len(one.spool) + one.dropped >= 1200)
        await asyncio.to_thread(kafka.start)
        found = await one.drained()
        repeats = assert_one_hole(found, one)
        lost = sorted(set(range(one.count)) - set(found))
        assert lost == list(range(lost[0], lost[0] + len(lost))), "one hole: the oldest that were waiting"
        tell(
            f"1 outage, {one.count} records, {one.telemetry.count(SPOOLED)} to disk; {len(lost)} past the "
            f"bound of 1 MiB, all counted, all others in order; {repeats} repeats"
        )


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"no file system of its own for the test: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def full_disk(folder: Path) -> Iterator[Callable[[], None]]:
    """A file takes all the space that is left, until the function that is given is called."""
    ballast = folder / "ballast"
    with pytest.raises(OSError, match="No space left"):
        _fill(ballast)
    yield ballast.unlink


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)


@contextmanager
def short_files(folder: Path) -> Iterator[Callable[[], None]]:
    """No file of this process may grow past what the spool has now: as a quota would do it."""
    most = max(path.stat().st_size for path in folder.iterdir())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)

    def lift() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield lift
    finally:
        lift()


async def check_full(one: Sender, kafka: RunningBroker, full: Callable[[Path], Any], folder: Path) -> str:
    """The disk is full while the broker is unreachable, then has space again, then the broker is back."""
    await one.publish(20)
    await until(lambda: len(one.outbox) == 0)
    await asyncio.to_thread(kafka.stop)
    await one.publish(10)
    await until(lambda: len(one.spool) >= 10)
    await one.publish(90)
    await until(lambda: len(one.spool) >= 100)
    with full(folder) as make_room:
        await one.publish(600)
        await until(lambda: one.telemetry.count(SPOOL_FAILED) > 0)
        await until(lambda: one.dropped > 0)
        assert one.telemetry.count(SPOOL_FAILED) == 1, "told once"
        at_the_worst = one.dropped
        make_room()
        await one.publish(60)
        await until(lambda: ("spool_failed", "disk") not in one.telemetry.conditions)
    on_disk = len(one.spool)
    await asyncio.to_thread(kafka.start)
    found = await one.drained()
    repeats = assert_one_hole(found, one)
    assert one.dropped >= at_the_worst
    assert on_disk > 100, "the disk is used again"
    return (
        f"full once: {one.dropped} of {one.count} lost, counted, told once; the others in order, "
        f"{on_disk} by way of the disk; {repeats} repeats"
    )


async def test_a_full_file_system_costs_what_is_counted_and_recovers(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    with small_disk(tmp_path / "disk") as folder:
        async with sender(kafka, topic_prefix, folder / "spool", 64 * MIB) as one:
            tell(await check_full(one, kafka, full_disk, folder))


async def test_a_quota_costs_what_is_counted_and_recovers(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    async with sender(kafka, topic_prefix, tmp_path, 64 * MIB) as one:
        tell(await check_full(one, kafka, short_files, tmp_path))
