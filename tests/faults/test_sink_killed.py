"""SIGKILL of sink workers between writing and acknowledging: SQL has the final peaks, no row more or less."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.faults.sink_field import SinkField
from tests.support.faults.sink_lives import MOST_VERSIONS, lives
from tests.support.servers.kafka.broker import RunningBroker

PODS = 60


async def kill_after_a_write(field: SinkField) -> bool:
    """Kill a worker soon after the database got something; whether it was written and not acknowledged."""
    await field.progress()
    if field.chance.random() < 0.5:  # else at once: within the half second before a commit
        await asyncio.sleep(field.chance.uniform(0, 1.5))
    victim = field.chance.choice(field.workers)
    victim.kill()
    written = await field.look()
    return written > await asyncio.to_thread(field.committed)


async def check(field: SinkField, *, workers: int, kills: int) -> str:
    async with field:
        records = lives(PODS, min(50 * kills, MOST_VERSIONS), seed=workers)
        feed = await field.feed(records, per_s=200)
        for _ in range(workers):
            await field.worker()
        between = 0
        for _ in range(kills):
            between += await kill_after_a_write(field)
        flowed = feed.flows
        await feed.finish()
        report = await field.judge(records)
    assert flowed, f"records ran out before the last kill: {report}"
    assert between >= kills // 2, "kills that hit between writing and acknowledging are what this is about"
    return f"{between} times written and not acknowledged; {report}"


@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, id="few"),
        pytest.param(40, marks=[pytest.mark.soak, pytest.mark.timeout(1800)], id="many"),
    ],
)
@pytest.mark.parametrize("workers", [1, 2], ids=["alone", "with another"])
async def test_kills_lose_and_double_nothing(
    workers: int, kills: int, kafka: RunningBroker, topic_prefix: str, postgres_url: str, tmp_path: Path,
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    field = SinkField(kafka, topic_prefix, postgres_url, tmp_path, seed=workers)
    tell(await check(field, workers=workers, kills=kills))
