"""When memory is said to run out, and when not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.operators.columns.arrays import Floats
from streams.operators.trends.bank import TrendBank
from streams.state.codec import from_bytes, to_bytes
from tests.support.targets import slow_after

START_MS = 1_700_000_000_000
GB = 1e9
SECOND = np.arange(1200.0)
SECONDS = np.arange(1500.0)
NOISE = np.random.default_rng(0).normal(size=SECOND.size)


def said(curve: Floats, capacity: float = 100 * GB, step_ms: int = 1000) -> float:
    """What is said after the curve (GB, one per step)."""
    bank = TrendBank(1)
    for tick, value in enumerate(curve):
        bank.update(START_MS + step_ms * tick, np.array([value * GB]))
    return float(bank.forecast(capacity=np.array([capacity])).exhausts_in_s[0])


LEAKS = {
    "straight": (20 + SECOND / 30, 1200),
    "with noise": (20 + SECOND / 30 + 0.2 * NOISE, 1200),
    "in steps": (20 + np.floor(SECOND / 30 / 0.5) * 0.5, 1200),
    "ever faster": (20 + 40 * (SECOND / 1200) ** 2, 497),
    "under batches": (20 + SECOND / 30 + 8 * (SECOND % 70) / 70, 1000),
    "at the end of each epoch": (20 + np.floor(SECOND / 50) * 5 / 3, 1200),
    "nearly full": (55 + SECOND / 30 + 0.2 * NOISE, 150),
}

HARMLESS = {
    "flat": 50 + 0 * SECOND,
    "noise": 50 + 5 * NOISE,
    "a warm-up that has flattened": 10 + 60 * np.minimum(SECOND / 400, 1),
    "a warm-up that flattened a minute ago": 10 + 80 * np.minimum(SECOND / 1130, 1),
    "a cache that fills": 10 + 70 * (1 - np.exp(-SECOND / 600)),
    "a random walk": 50 + (0.2 * NOISE).cumsum(),
    "collected again and again": 20 + (SECOND % 300) / 10,
    "one jump": 20 + 60.0 * (SECOND > 900),
    "a program that loads for twenty minutes": 2 + SECOND / 20,
    "batches of the same size": 50 + 8 * (SECOND % 70) / 70,
    "users who come one after another": 10 + np.floor((SECOND / 1200) ** 0.7 * 12) * 5.5,
    "falling": 90 - SECOND / 30,
    "so slow that hours are left": 20 + SECOND / 300,
    "full already": 100 + 0 * SECOND,
}


@pytest.mark.parametrize(("curve", "left_s"), LEAKS.values(), ids=LEAKS)
def test_a_leak_is_announced_with_the_time_left(curve: Floats, left_s: float) -> None:
    assert said(curve) == pytest.approx(left_s, rel=0.15)


@pytest.mark.parametrize("curve", HARMLESS.values(), ids=HARMLESS)
def test_what_does_not_run_out_is_not_announced(curve: Floats) -> None:
    assert np.isnan(said(curve))


def climbs(start: float, end: float, seconds: float) -> Floats:
    """Five minutes at ``start``, a climb to ``end`` within so many ``seconds``, and two minutes there."""
    return np.asarray(np.interp(np.arange(300 + seconds + 120), (300, 300 + seconds), (start, end)))


@pytest.mark.parametrize("noise", [0.0, 0.2])
@pytest.mark.parametrize("minutes", [1, 3, 5, 10])
def test_what_fills_up_within_minutes_is_announced_before_it_is_full(minutes: int, noise: float) -> None:
    full_s = 300 + 60 * minutes
    curve = climbs(40, 100, 60 * minutes) + noise * np.random.default_rng(2).normal(size=full_s + 120)
    left = announced(np.minimum(curve, 100.0))
    first = int(np.argmax(~np.isnan(left)))
    assert full_s - 15 * minutes < 10 * first < full_s - 6 * minutes
    told = left[first : (full_s - 5) // 10]
    assert told == pytest.approx(full_s - 10.0 * np.arange(first, first + told.size), abs=3 + 0.7 * minutes)


LOADS = {
    "a model from nothing": (1, 95, 180),
    "a model on what was there": (20, 84, 180),
    "a cache that is nearly all": (40, 87, 540),
    "in a minute": (15, 82, 60),
}


@pytest.mark.parametrize(("start", "end", "seconds"), LOADS.values(), ids=LOADS)
def test_a_load_that_ends_with_room_left_is_not_announced(start: int, end: int, seconds: int) -> None:
    assert np.isnan(announced(climbs(start, end, seconds))).all()


def test_a_few_jumps_are_no_climb() -> None:
    assert np.isnan(announced(12 + np.minimum(np.floor(SECOND / 160), 4) * 18.5)).all()


UNKNOWN = {
    "too little history": (20 + SECOND[:500] / 30, 100 * GB),
    "no capacity known": (20 + SECOND / 30, float("nan")),
    "a gap in the history": (np.where((SECOND > 900) & (SECOND < 1080), np.nan, 20 + SECOND / 30), 100 * GB),
}


@pytest.mark.parametrize(("curve", "capacity"), UNKNOWN.values(), ids=UNKNOWN)
def test_what_is_not_known_well_enough_is_not_announced(curve: Floats, capacity: float) -> None:
    assert np.isnan(said(curve, capacity))


def test_a_climb_from_nothing_is_announced_when_it_lasts() -> None:
    assert np.isnan(said(2 + np.arange(1700.0) / 40))
    assert said(2 + np.arange(2000.0) / 40) == pytest.approx(40 * 98 - 2000, rel=0.15)


def test_coarse_ticks_are_enough() -> None:
    assert said(20 + SECOND[::10] / 30, step_ms=10_000) == pytest.approx(1200, rel=0.15)


@pytest.mark.parametrize("step_s", [15, 30, 45, 60])
@pytest.mark.parametrize(("curve", "left_s"), list(LEAKS.values())[:4], ids=list(LEAKS)[:4])
def test_samples_up_to_a_minute_apart_are_enough(curve: Floats, left_s: float, step_s: int) -> None:
    assert said(curve[::step_s], step_ms=1000 * step_s) == pytest.approx(left_s, rel=0.2)


RESTED = {what: curve for what, curve in HARMLESS.items() if "a minute ago" not in what}
"""Without what came to rest just now, of which few samples have seen nothing yet."""


@pytest.mark.parametrize("step_s", [15, 30, 45, 60])
@pytest.mark.parametrize("curve", RESTED.values(), ids=RESTED)
def test_what_does_not_run_out_is_not_announced_of_few_samples(curve: Floats, step_s: int) -> None:
    assert np.isnan(said(curve[::step_s], step_ms=1000 * step_s))


@pytest.mark.parametrize("step_s", slow_after(3, [10, 30, 60, 1, 5, 15]))
@given(
    seed=st.integers(0, 2**32 - 1), base=st.floats(60, 88), top=st.floats(96, 99.4),
    climb_s=st.floats(60, 480),
)  # fmt: skip
@settings(max_examples=10, deadline=None)
def test_an_allocator_that_climbs_and_frees_again_and_again_is_not_announced(
    step_s: int, seed: int, base: float, top: float, climb_s: float
) -> None:
    rises = np.random.default_rng(seed).exponential((top - base) / climb_s, size=3000)
    held, levels = base, []
    for rise in rises:
        held = base if held + rise > top else held + rise
        levels.append(held)
    freed = int(np.flatnonzero(np.diff(levels) < 0)[0]) + 1
    bank, told = TrendBank(1), []
    for second in range(0, rises.size, step_s):
        bank.update(START_MS + 1000 * second, np.array([levels[second] * GB]))
        left_s = bank.forecast(capacity=np.array([100 * GB])).exhausts_in_s[0]
        # The first climb may be one that fills memory: of that only samples far apart cannot know.
        told += [second] if (second > freed + 60 or climb_s < 4 * step_s) and left_s > 0 else []
    assert not told


@pytest.mark.parametrize(("step_s", "minutes"), [(15, 5), (30, 8), (60, 15)])
def test_a_climb_of_enough_samples_far_apart_is_announced(step_s: int, minutes: int) -> None:
    full_s = 300 + 60 * minutes
    curve = climbs(40, 100, 60 * minutes)[::step_s]
    assert any(
        not np.isnan(said(curve[:count], step_ms=1000 * step_s)) for count in range(2, full_s // step_s)
    )


def test_a_program_that_begins_anew_may_fill_what_the_one_before_filled() -> None:
    once = np.concatenate((np.full(200, 40.0), np.linspace(40, 99.9, 200)))
    left = announced(np.concatenate((once, np.full(60, 2.0), np.full(200, 40.0), np.linspace(40, 99.9, 200))))
    assert not np.isnan(left[460 // 10 + 20 :][: 200 // 10 + 1]).all()


def test_too_few_samples_say_nothing() -> None:
    assert np.isnan(said(20 + SECOND[::120] / 30, step_ms=120_000))


def announced(curve: Floats, restart: int | None = None, capacity: Floats | None = None) -> Floats:
    """What is said every ten seconds of ``curve`` (no tick at infinity, no value at NaN) and ``capacity``, in
    GB; before that of second ``restart`` the bank goes on from a snapshot."""
    bank, left = TrendBank(1), []
    full = np.full(curve.size, 100.0) if capacity is None else capacity
    for second, value in enumerate(curve):
        if np.isinf(value):
            left += [np.nan] * (second % 10 == 0)
            continue
        bank.update(START_MS + 1000 * second, np.array([value * GB]))
        if second == restart:
            bank = TrendBank.restore(from_bytes(to_bytes(bank.snapshot())))
        if second % 10 == 0:
            left.append(float(bank.forecast(capacity=full[[second]] * GB).exhausts_in_s[0]))
    return np.array(left)


IN_STEPS = 20 + np.floor(np.arange(1800.0) / 90) * 3 + 0.05 * np.random.default_rng(1).normal(size=1800)


@pytest.mark.parametrize("epoch_s", [40, 70, 90])
def test_what_climbs_in_steps_stays_announced(epoch_s: int) -> None:
    second = np.arange(1800.0)
    said = ~np.isnan(announced(20 + np.floor(second / epoch_s) * epoch_s / 30))
    assert said.any()
    assert said[said.argmax() :].all()


AT_REST = {
    "straight": (20 + np.minimum(np.arange(1800.0), 1200) / 30, 100),
    "in steps of a minute and a half": (IN_STEPS[np.minimum(np.arange(1800), 1200)], 200),
}


@pytest.mark.parametrize(("curve", "most_s"), AT_REST.values(), ids=AT_REST)
def test_what_has_come_to_rest_is_taken_back_for_good(curve: Floats, most_s: float) -> None:
    said = ~np.isnan(announced(curve))
    assert said[120]
    assert not said[120 + int(most_s / 10) :].any()


def test_what_was_announced_is_remembered_across_a_restart() -> None:
    straight = announced(IN_STEPS)
    assert np.isnan(said(IN_STEPS[:1251]))
    assert not np.isnan(straight[125])
    assert np.array_equal(announced(IN_STEPS, restart=1245), straight, equal_nan=True)


LONG = 20 + SECONDS / 30


@pytest.mark.parametrize("missing", [np.nan, np.inf], ids=["values", "ticks"])
@pytest.mark.parametrize("pause_s", [1, 25, 45, 70])
def test_a_short_pause_of_the_samples_takes_nothing_back(pause_s: int, missing: float) -> None:
    since = SECONDS - 1000
    left = announced(np.where((since > 0) & (since <= pause_s), missing, LONG))
    known = left[66:][np.isfinite(left[66:])]
    assert known.size >= left[66:].size - (pause_s // 10 + 1 if np.isinf(missing) else 0)
    assert not np.isnan(left[101 + pause_s // 10 :]).any()
    assert left[-1] == pytest.approx(80 * 30 - 1490, rel=0.05)


def test_after_two_minutes_without_a_sample_it_is_announced_again_at_once() -> None:
    left = announced(np.where((SECONDS > 1000) & (SECONDS <= 1120), np.nan, LONG))
    assert np.isnan(left[111:113]).all()
    assert not np.isnan(left[113:]).any()


@pytest.mark.parametrize("lacks", ["value", "capacity"])
@pytest.mark.parametrize("restart", [None, 1050], ids=["", "restarted"])
def test_while_something_is_absent_the_time_left_counts_down_for_a_while(
    lacks: str, restart: int | None
) -> None:
    gone = SECONDS > 1000
    curve, capacity = np.where(gone & (lacks == "value"), np.nan, LONG), np.where(gone, np.nan, 100.0)
    left = announced(curve, restart, np.full(1500, 100.0) if lacks == "value" else capacity)
    assert left[100] == pytest.approx(1400, rel=0.01)
    assert left[101:109] == pytest.approx(left[100] - np.arange(10, 90, 10), abs=11)
    assert np.isnan(left[111:]).all()


def test_it_is_taken_back_while_the_level_is_known_still() -> None:
    bank, row = TrendBank(1), np.array([np.nan])
    for second in range(1117):
        bank.update(START_MS + 1000 * second, LONG[[second]] * GB if second <= 1000 else row)
        if second % 10 == 0:
            now = bank.forecast(capacity=np.array([100 * GB]))
    assert np.isfinite(now.level[0])
    assert np.isnan(now.exhausts_in_s[0])
