"""A worker on the embedded broker: killed, stopped, cut off; what comes out is what goes in."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.faust.runner import GRACE_S
from tests.support.fakes.interruptible_broker import InterruptibleBroker
from tests.support.streams.field import PARTITIONS, Field

PREFIX = "toy."
PATIENCE_S = GRACE_S + 60.0
"""An end takes no longer than its grace; a busy machine shows it later."""


@pytest.fixture
def broker() -> Iterator[InterruptibleBroker]:
    names = [PREFIX + name for name in TOPICS] + [PREFIX + "state-toy"]
    with InterruptibleBroker(dict.fromkeys(names, PARTITIONS)) as running:
        yield running


@pytest.mark.parametrize("seed", [1])
async def test_kills_and_an_outage_change_nothing(
    broker: InterruptibleBroker, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)  # noqa: S311 - moments, no secrets
    async with Field(broker.url, PREFIX, tmp_path) as field:
        feeding = asyncio.create_task(field.feed(3000, per_s=150))
        for _ in range(2):
            worker = field.start_worker()
            await field.progress()
            await asyncio.sleep(chance.uniform(0, 1.5))  # any moment of work
            worker.process.kill()
        field.start_worker()
        await asyncio.sleep(chance.uniform(0, 10))  # any moment of joining, recovery or work
        broker.set_down()
        await asyncio.sleep(2)
        broker.set_up()
        await feeding
        await field.judge()
        status, took = await asyncio.to_thread(field.workers[-1].terminate)
        assert status == 0, field.logs()
        assert took < PATIENCE_S


@pytest.mark.parametrize("moment", [0.0, 1.3, 3.0])
async def test_sigterm_at_any_moment(broker: InterruptibleBroker, tmp_path: Path, moment: float) -> None:
    async with Field(broker.url, PREFIX, tmp_path) as field:
        await field.feed(200, per_s=10_000)
        worker = field.start_worker()
        await worker.hears()
        await asyncio.sleep(moment)
        status, took = await asyncio.to_thread(worker.terminate)
        assert status == 0, field.logs()
        assert took < PATIENCE_S


async def test_sigterm_in_an_outage(broker: InterruptibleBroker, tmp_path: Path) -> None:
    """What could not be handed in is done by the next worker."""
    async with Field(broker.url, PREFIX, tmp_path) as field:
        worker = field.start_worker()
        await field.feed(500, per_s=250)
        await field.progress()
        broker.set_down()
        status, took = await asyncio.to_thread(worker.terminate)
        broker.set_up()
        assert status == 0, field.logs()
        assert took < PATIENCE_S
        field.start_worker()
        await field.judge()


async def test_records_that_no_operator_sees(broker: InterruptibleBroker, tmp_path: Path) -> None:
    async with Field(broker.url, PREFIX, tmp_path) as field:
        field.start_worker()
        await field.feed(100, per_s=10_000)
        await field.send_raw(b"k1", b"x" * 3_500_000)  # the broker holds 5 MB a partition
        await field.send_raw(b"k1", b"x" * 1_000_001)
        await field.send_raw(b"\xff", b"{}")
        await field.feed(100, per_s=10_000)
        await field.judge(dead_letters=["key", "size", "size"])
