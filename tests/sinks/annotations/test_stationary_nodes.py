"""A node whose load does not change is written once an hour, whatever its cycle and its noise."""

import random

import pytest
from msgspec.structs import replace

from sinks.annotations.core.schedule import CALM, MOST_DAMPED, Damping, WritePolicy
from tests.support.sinks.made import K80, node_part, sample
from tests.support.sinks.queueless import QueuelessSink
from tests.support.sinks.stationary import Load, WrittenNode, flat, square, wave, writes_of_node
from tests.support.targets import slow_after

HOUR_S = 3600
KNOWN_S = 600
"""By then the cycles are found, and the maxima are reached."""
INTERVAL_S = 30.0
NODES: dict[str, list[Load]] = {
    "square waves": [square(period_s) for period_s in (5, 11, 15, 30, 60, 120)],
    "noisy waves": [wave(period_s) for period_s in (7, 13, 20, 45, 75, 110)],
    "no cycle": [flat(60, 2), flat(98, 1), flat(30, 10), flat(0, 0)],
}


@pytest.mark.parametrize("loads", slow_after(0, NODES.values()), ids=NODES.keys())
async def test_after_ten_minutes_there_are_two_writes_an_hour_at_most(loads: list[Load]) -> None:
    seconds = [write.second for write in await writes_of_node(loads, 2 * HOUR_S)]
    assert 1 <= sum(second < KNOWN_S for second in seconds) <= 7, seconds
    later = [second for second in seconds if second >= KNOWN_S]
    assert later, "it is refreshed"
    assert all(sum(0 <= other - first < HOUR_S for other in later) <= 2 for first in later), later


async def test_noise_delays_no_news() -> None:
    """Slope, cycle and memory are noise from the beginning; then the only process ends."""
    server = WrittenNode()
    sink = QueuelessSink(server, WritePolicy())
    chance = random.Random(0)  # noqa: S311 - a load, no secret
    for second in range(0, 2 * HOUR_S + 100, 10):
        processes = K80.processes if second < 2 * HOUR_S else ()
        used = chance.uniform(2e9, 11e9)
        server.second = second
        part = node_part(cyclic=chance.random() < 0.5, slope_per_s=chance.gauss(0, 1))
        for record in (sample(replace(K80, mem_used_bytes=used, processes=processes)), part):
            sink.take(record, second)
            await sink.write(second)
    seconds = [write.second for write in server.writes]
    noise = [second for second in seconds if second < 2 * HOUR_S]
    assert noise[:5] == [0, 30, 60, 120, 240]
    assert sum(second >= HOUR_S for second in noise) <= 1
    assert 2 * HOUR_S in seconds


def test_each_further_change_waits_twice_as_long() -> None:
    damping, last, now, waits = Damping(), 0.0, 0.0, []
    for _ in range(10):
        damping.note_written({"a"}, now, INTERVAL_S)
        wait = next(s for s in range(1000) if not damping.waiting(s * INTERVAL_S, INTERVAL_S))
        waits.append(wait)
        last, now = now, now + wait * INTERVAL_S
    assert waits == [1, 2, 4, 8, 16, 32, 64, MOST_DAMPED, MOST_DAMPED, MOST_DAMPED]
    damping.note_written((), last + (CALM - 1) * INTERVAL_S, INTERVAL_S)
    assert damping.waiting(INTERVAL_S, INTERVAL_S) == {"a"}
    damping.note_written((), last + CALM * INTERVAL_S, INTERVAL_S)
    assert damping.waiting(0, INTERVAL_S) == set(), "it was calm for long enough"


def test_one_figure_waits_and_the_others_do_not() -> None:
    damping = Damping()
    for now in (0.0, 30.0, 90.0):
        damping.note_written({"noise"}, now, INTERVAL_S)
    assert damping.waiting(60.0, INTERVAL_S) == {"noise"}
    assert damping.waiting(120.0, INTERVAL_S) == set()
