"""Forecasts that wait for their moment: which are kept, and when they come out again."""

import numpy as np
import pytest

from streams.operators.columns.arrays import Floats
from streams.operators.trends.bank import TrendBank
from streams.operators.trends.horizon import COUNT
from streams.operators.trends.pending import NEVER_MS, PendingForecasts
from streams.state.codec import from_bytes, to_bytes

START_MS = 1_700_000_000_000


def figures(value: float) -> Floats:
    return np.full((2, 1), value)


def kept_at(horizon_s: float, moments_s: range) -> tuple[PendingForecasts, list[int]]:
    """What waits after forecasts at these moments, each taken out when its own comes; and those kept."""
    waiting, kept = PendingForecasts(horizon_s, 2, 1), []
    for moment_s in moments_s:
        now_ms = START_MS + 1000 * moment_s
        while waiting.next_ms <= now_ms:
            waiting.take()
        if waiting.has_room(now_ms):
            waiting.put(now_ms, np.array([7.0]), figures(moment_s))
            kept.append(moment_s)
    return waiting, kept


@pytest.mark.parametrize("horizon_s", [1.0, 10.0, 30.0])
def test_all_that_are_made_are_kept_where_few_overlap(horizon_s: float) -> None:
    made = range(0, 600, 10)
    assert kept_at(horizon_s, made)[1] == list(made)


def test_far_ahead_some_are_kept_at_moments_that_look_random() -> None:
    kept = kept_at(300.0, range(0, 6000, 10))[1]
    apart = np.diff(kept)
    assert 45 < apart.mean() < 56
    assert set(apart.tolist()) >= {40, 50, 60}


def test_the_oldest_comes_out_first_with_its_moment_and_the_value_of_then() -> None:
    waiting = PendingForecasts(30.0, 2, 1)
    for moment_s in (0, 10, 20):
        waiting.put(START_MS + 1000 * moment_s, np.array([80e9 + moment_s]), figures(moment_s))
    assert not waiting.has_room(START_MS + 28_000)
    assert waiting.next_ms == START_MS + 30_000
    for moment_s in (0, 10, 20):
        due_ms, then, kept = waiting.take()
        assert (due_ms, then[0]) == (START_MS + 30_000 + 1000 * moment_s, 80e9 + moment_s)
        assert np.array_equal(kept, figures(moment_s))
    assert waiting.next_ms == NEVER_MS


def test_a_restart_leaves_no_trace() -> None:
    waiting, _ = kept_at(300.0, range(0, 400, 10))
    resumed = PendingForecasts(300.0, 2, 1)
    resumed.restore(from_bytes(to_bytes(waiting.snapshot())))
    assert resumed.snapshot() == waiting.snapshot()
    assert resumed.next_ms == waiting.next_ms


def test_ticks_that_come_a_little_too_soon_are_those_that_were_meant() -> None:
    bank, rng = TrendBank(1), np.random.default_rng(0)
    for second in range(1, 601):
        bank.update(START_MS + 1000 * second + int(rng.integers(-45, 45)), rng.normal(size=1))
        if second % 10 == 0:
            bank.forecast()
    assert bank._horizons._state[0, COUNT, 0] > 45
