"""Two workers on the real Kafka: killed, stopped, frozen; partitions wander, and the sums stay exact."""

import asyncio
import signal
from pathlib import Path

import pytest

from tests.servers.kafka.broker import RunningBroker
from tests.shell.field import Field


@pytest.mark.timeout(240)
async def test_two_workers_and_every_way_to_end(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path
) -> None:
    async with Field(kafka.url, topic_prefix, tmp_path) as field:
        first = field.start_worker()
        await field.topics()
        feeding = asyncio.create_task(field.feed(6000, per_s=150))
        await field.progress()
        second = field.start_worker()
        await asyncio.sleep(4)  # it joins: partitions are handed over
        await field.progress()
        first.kill()
        await asyncio.sleep(6)
        await field.progress()
        third = field.start_worker()
        await asyncio.sleep(4)
        status, took = await asyncio.to_thread(second.terminate)
        assert status == 0, field.logs()
        assert took < 20
        fourth = field.start_worker()
        await asyncio.sleep(4)
        third.signal(signal.SIGSTOP)
        await asyncio.sleep(9)  # longer than the session: the other one owns everything now
        third.signal(signal.SIGCONT)
        assert await field.ended(third) == 1, field.logs()  # it knows that it stood still
        await feeding
        await field.judge()
        assert (await asyncio.to_thread(fourth.terminate))[0] == 0, field.logs()
