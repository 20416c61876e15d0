"""Workers that join, leave and stand still while samples flow: partitions wander, records do not change."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.data.traces import write_trace
from tests.support.faults.field import Field
from tests.support.faults.oracle import replayed
from tests.support.faults.world import World, records
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until

PER_S = 50.0


async def join_and_leave(field: Field) -> None:
    """A worker joins, takes over what it is given, and leaves by SIGTERM in good order."""
    guest = await field.worker()
    await field.members(2)
    await field.some_time(0, 2)
    await field.progress()
    await guest.end()
    await field.members(1)
    await field.progress()


async def stand_still(field: Field) -> None:
    """SIGSTOP until the group has given the partitions away; then SIGCONT.

    It has to notice: what it would write now is old. It ends with 1, and its supervisor starts it again.
    """
    one = field.chance.choice(field.workers)
    await field.some_time(0, 2)
    before = len(one.failures)
    one.pause()
    field.pauses += 1
    await asyncio.sleep(field.settings.session_timeout)  # a worker that left may be counted as a member still
    await field.members(1)
    await field.progress()  # by the other one, who has taken over
    one.resume()
    await until(lambda: len(one.failures) > before, lambda: f"a paused worker to end: {field.logs()}")
    assert one.failures[-1] == 1, field.logs()
    await field.members(2)
    await field.progress()


async def check(
    act: Callable[[Field], Awaitable[None]],
    times: int,
    kafka: RunningBroker,
    prefix: str,
    folder: Path,
    **how: int,
) -> str:
    """Let ``act`` happen ``times`` while samples flow, among ``workers``."""
    world = list(records(World(seed=how["seed"], seconds=100 + 35 * times)))
    expected = replayed(write_trace(folder / "trace.jsonl", world), folder)
    async with Field(kafka, prefix, folder, how["seed"]) as field:
        feed = await field.feed(world, PER_S)
        for _ in range(how["workers"]):
            await field.worker()
        await field.members(how["workers"])
        await field.progress()
        for _ in range(times):
            await act(field)
        flowed = feed.flows
        await feed.finish()
        report = await field.judge(expected)
        assert flowed, f"samples ran out too soon: {report}"
        return report


async def test_workers_join_and_leave(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    tell(await check(join_and_leave, 2, kafka, topic_prefix, tmp_path, seed=21, workers=1))


async def test_workers_stand_still(
    kafka: RunningBroker, topic_prefix: str, tmp_path: Path, tell: Callable[[str], None]
) -> None:
    tell(await check(stand_still, 2, kafka, topic_prefix, tmp_path, seed=22, workers=2))


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("act", "workers"), [(join_and_leave, 1), (stand_still, 2)], ids=["join", "stand"])
async def test_again_and_again(
    act: Callable[[Field], Awaitable[None]], workers: int, kafka: RunningBroker, topic_prefix: str,
    tmp_path: Path, fresh_seed: int, tell: Callable[[str], None],
) -> None:  # fmt: skip
    tell(await check(act, 25, kafka, topic_prefix, tmp_path, seed=fresh_seed, workers=workers))
