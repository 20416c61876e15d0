"""When a series is looked at."""

from itertools import pairwise

import numpy as np
import pytest

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.cycles.schedule import PATIENT, RECENT, Schedule
from streams.state.codec import from_bytes, to_bytes

NAN = float("nan")
SAMPLES = 600
FREE, LOCKED = np.array([False]), np.array([True])
EVERY = 10


def newest(mean: float, spread: float) -> Floats:
    """The newest samples of one series."""
    return np.linspace(mean - spread / 2, mean + spread / 2, RECENT)[np.newaxis]


def active(sizes: Ints) -> Ints:
    """Parts that are active throughout."""
    return np.stack((0 * sizes, sizes), axis=1)


def looks(seen: list[tuple[float, float]], *, expected: bool = False) -> list[tuple[int, int]]:
    """(slot, samples that were looked at) of a series that began at slot 0, of these means and spreads."""
    schedule, found = Schedule(1, SAMPLES), []
    for turn, one in enumerate(seen, 1):
        slot = EVERY * turn
        schedule.observe(newest(*one), slot)
        size, locked = np.array([min(slot, SAMPLES)]), LOCKED if expected else FREE
        columns = schedule.due(slot, size, locked, FREE)
        limits = schedule.limits(slot, columns, active(size)[columns], locked)
        found += [(slot, min(int(limit), slot)) for limit in limits if limit]
    return found


LIVELY = [(50.0 * (turn % 3), 4.0 * 3**turn) for turn in range(90)]


def test_a_young_series_is_looked_at_each_time_and_as_a_whole_when_it_has_grown_by_a_tenth() -> None:
    found = looks(LIVELY[:20])
    assert [slot for slot, _ in found] == list(range(10, 201, 10))
    assert [slot for slot, size in found if size == slot > 150] == [160, 180, 200]


def test_an_old_one_in_parts_the_smaller_the_more_often() -> None:
    found = looks(LIVELY)[-12:]
    assert {size for _, size in found} == {150, 300, 600}
    of = {size: [slot for slot, one in found if one >= size] for size in (150, 300, 600)}
    assert [max(np.diff(of[size])) for size in (150, 300, 600)] == [10, 30, 60]


def test_one_that_goes_on_as_it_did_is_looked_at_half_as_often_and_as_a_whole() -> None:
    found = looks([(50.0 + turn % 2, 4.0) for turn in range(90)])
    late = [one for one in found if one[0] > PATIENT + 60]
    assert all(size == min(slot, SAMPLES) for slot, size in late)
    assert all(after - slot >= 0.2 * size for (slot, size), (after, _) in pairwise(late))


@pytest.mark.parametrize("news", [(80.0, 4.0), (50.0, 30.0)], ids=["another level", "wider"])
def test_what_is_new_is_looked_at_at_once(news: tuple[float, float]) -> None:
    steady = [(50.0 + turn % 2, 4.0) for turn in range(90)]
    waits = next(turn for turn in range(80, 90) if EVERY * turn not in dict(looks(steady)))
    assert EVERY * waits in dict(looks([*steady[: waits - 1], news]))
    assert EVERY * waits not in dict(looks([*steady[: waits - 1], (NAN, NAN)]))


def test_a_locked_one_is_looked_at_when_it_has_grown_by_half() -> None:
    found = [slot for slot, _ in looks(LIVELY, expected=True)]
    assert found == [10, 20, 40, 80, 160, 320, 620]


def test_a_doubted_one_is_looked_at_each_time() -> None:
    schedule = Schedule(1, SAMPLES)
    schedule.limits(500, np.zeros(1, np.int64), active(np.array([500])), LOCKED)
    assert schedule.due(510, np.array([510]), LOCKED, FREE).size == 0
    assert schedule.due(510, np.array([510]), LOCKED, LOCKED).tolist() == [0]


def test_columns_move_and_a_restart_leaves_no_trace() -> None:
    schedule = Schedule(1, SAMPLES)
    schedule.observe(newest(50.0, 4.0), 100)
    schedule.limits(100, np.zeros(1, np.int64), active(np.array([100])), FREE)
    schedule.resize(np.array([-1, 0]))
    again = Schedule(2, SAMPLES)
    again.restore(from_bytes(to_bytes(schedule.snapshot())))
    both = np.array([False, False])
    for one in (schedule, again):
        one.observe(np.concatenate((newest(1.0, 2.0), newest(51.0, 4.0))), 101)
        due = one.due(101, np.array([101, 101]), both, both)
        assert one.limits(101, due, active(np.array([101, 101])), both).tolist() == [SAMPLES, 0]
    assert to_bytes(again.snapshot()) == to_bytes(schedule.snapshot())
