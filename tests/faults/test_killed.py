"""SIGKILL at random moments, many times in one run: the records of an undisturbed replay."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.data.traces import write_trace
from tests.support.faults.field import Field
from tests.support.faults.oracle import replayed
from tests.support.faults.world import World, records
from tests.support.servers.kafka.broker import RunningBroker

KILLS = 6
PER_S = 50.0


async def check(
    kafka: RunningBroker, prefix: str, folder: Path, *, seed: int, workers: int, kills: int = KILLS
) -> str:
    world = list(records(World(seed=seed, seconds=60 + 20 * kills)))
    expected = replayed(write_trace(folder / "trace.jsonl", world), folder)
    async with Field(kafka, prefix, folder, seed) as field:
        feed = await field.feed(world, PER_S)
        for _ in range(workers):
            await field.worker()
        await field.kill_again_and_again(kills)
        flowed = feed.flows
        await feed.finish()
        report = await field.judge(expected)
        assert flowed, f"samples ran out before the last kill: {report}"
    return report


@pytest.mark.parametrize("workers", [1, 2], ids=["alone", "with another"])
async def test_kills_change_nothing(
    workers: int, kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    tell(await check(kafka, topic_prefix, tmp_path, seed=workers, workers=workers))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("run", range(2))
@pytest.mark.parametrize("workers", [1, 2], ids=["alone", "with another"])
async def test_many_kills_change_nothing(
    workers: int, run: int, kafka: RunningBroker, topic_prefix: str, tmp_path: Path, fresh_seed: int,
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    seed = fresh_seed + run
    tell(await check(kafka, topic_prefix, tmp_path, seed=seed, workers=workers, kills=50))
