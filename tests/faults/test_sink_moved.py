"""Sink workers come, go and stand still while they write: what an old owner writes late changes nothing."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.faults.sink_field import SinkField
from tests.support.faults.sink_lives import MOST_VERSIONS, lives
from tests.support.faults.supervised import Supervised
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import until

PODS = 60
PER_S = 150.0


async def stand_still(field: SinkField, session_s: float) -> Supervised:
    """One of two workers stands still for longer than its session, wakes as an owner of nothing, ends, and is
    started again; it is returned."""
    guest = await field.worker()
    await field.members(2)
    await field.progress()
    guest.pause()
    await field.members(1)
    await asyncio.sleep(session_s)
    await field.progress()
    guest.resume()
    await until(lambda: bool(guest.failures), lambda: f"a paused worker to end: {field.logs()}")
    assert guest.failures == [1], field.logs()
    await field.members(2)
    await field.progress()
    return guest


async def check(field: SinkField, *, moves: int, pauses: int) -> str:
    flowed = False
    async with field:
        records = lives(PODS, min(60 * (moves + 2 * pauses), MOST_VERSIONS), seed=3)
        feed = await field.feed(records, PER_S)
        await field.worker()
        await field.progress()
        for _ in range(moves):
            guest = await field.worker()
            await field.members(2)
            await field.progress()
            await asyncio.sleep(field.chance.uniform(0, 1))
            await guest.end()
            await field.progress()
        for _ in range(pauses):
            guest = await stand_still(field, field.settings.session_timeout)
            flowed = feed.flows
            await guest.end()
            await field.members(1)
        await feed.finish()
        report = await field.judge(records)
    assert flowed, f"records ran out before the last move: {report}"
    return f"{moves} joins and leaves, {pauses} frozen past the session; {report}"


@pytest.mark.parametrize(
    ("moves", "pauses"),
    [
        pytest.param(1, 1, id="few"),
        pytest.param(12, 4, marks=[pytest.mark.soak, pytest.mark.timeout(1800)], id="many"),
    ],
)
async def test_moves_while_writing_lose_and_double_nothing(
    moves: int, pauses: int, kafka: RunningBroker, topic_prefix: str, postgres_url: str, tmp_path: Path,
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    field = SinkField(kafka, topic_prefix, postgres_url, tmp_path)
    tell(await check(field, moves=moves, pauses=pauses))
