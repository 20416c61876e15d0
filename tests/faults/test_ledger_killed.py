"""SIGKILL of stream workers and of sinks while an hour goes by: the ledger is that of an undisturbed replay,
row for row, and its totals are those of the kernel's and the driver's own counters."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, exc, text

from tests.support.data.counted_hour import GPUS, CountedHour
from tests.support.data.traces import consumed
from tests.support.faults.field import Field
from tests.support.faults.supervised import Supervised
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.sinks.recording import record_all, unix_ms
from tests.support.waiting import until

KILLS = 4
PER_S = 60.0
ROWS = (
    "SELECT hour, until, node, pod_uid, gpu, gpu_s, gpu_known_s, gpu_busy_s, energy_j, pod_s, cpu_s, "
    "mem_byte_s FROM usage_hours"
)
SUMS = "SELECT sum(cpu_s), sum(energy_j), sum(gpu_s) FROM usage_hours WHERE hour < '2026-09-21T16:00:00.000Z'"


def rows_of(url: str, query: str = ROWS) -> list[tuple[Any, ...]]:
    """The rows, in order; none where there is no table yet."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            found = [tuple(row) for row in connection.execute(text(query))]
    except exc.SQLAlchemyError:
        return []
    finally:
        engine.dispose()
    if query != ROWS:
        return found
    return sorted((unix_ms(hour), unix_ms(until), *rest) for hour, until, *rest in found)


@pytest.mark.parametrize("workers", [1, 2], ids=["alone", "with another"])
async def test_kills_add_nothing_and_take_nothing_away(
    workers: int, kafka: RunningBroker, topic_prefix: str, postgres_url: str, tmp_path: Path,
    tell: Callable[[str], None],
) -> None:  # fmt: skip
    hour = CountedHour(seed=workers)
    world = list(hour.records())
    replay = f"sqlite:///{tmp_path}/replay.db"
    record_all(consumed(world), replay, ended=False)
    expected = rows_of(replay)
    field = Field(
        kafka, topic_prefix, tmp_path, workers, records=postgres_url, annotations="off", price_gpu_hour="2"
    )
    async with field:
        feed = await field.feed(world, PER_S)
        sink = Supervised(["sink"], field.env, tmp_path / "sink.log")
        async with sink:
            for _ in range(workers):
                await field.worker()
            for _ in range(KILLS):
                await field.kill_again_and_again(1)
                await field.progress()
                sink.kill()
            flowed = feed.flows
            await feed.finish()

            def wrong() -> str:
                got = rows_of(postgres_url)
                pairs = [pair for pair in zip(expected, got, strict=False) if pair[0] != pair[1]]
                return (
                    f"{len(expected)} rows, not {len(got)}; {pairs[:2]}; {field.logs()}; {sink.log[-3000:]}"
                )

            await until(lambda: rows_of(postgres_url) == expected, wrong)
        kills = sum(one.kills for one in field.workers)
    assert rows_of(postgres_url) == expected, "an end changed something"
    assert flowed, "samples ran out before the last kill"
    assert (kills, sink.kills) == (KILLS, KILLS)
    [(cpu_s, energy_j, gpu_s)] = rows_of(postgres_url, SUMS)
    assert cpu_s == pytest.approx(hour.used.cpu_s[""], rel=0.001)
    assert energy_j == pytest.approx(sum(hour.used.energy_j.values()), rel=0.001)
    assert gpu_s == pytest.approx(3600 * GPUS, rel=0.001)
    tell(
        f"{kills} kills of streams, {sink.kills} of the sink; {len(expected)} rows, all equal; "
        f"CPU {cpu_s:.1f} s of {hour.used.cpu_s['']:.1f}, {energy_j:.0f} J of "
        f"{sum(hour.used.energy_j.values()):.0f}"
    )
