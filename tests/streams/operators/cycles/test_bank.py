"""The bank of cycles: from ticks to changes."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.generators import Case, Floats
from dutycycle.contract.records.derived import CycleMetric
from streams.operators.cycles.bank import (
    ANEW,
    TICKS,
    CycleBank,
    CycleConfig,
    common_periods,
    repeating,
    sampled,
    shortest,
)
from streams.operators.cycles.detect.detector import FoundCycle
from streams.operators.cycles.detect.window import Detection
from streams.operators.cycles.result import NO_CYCLE
from streams.state.codec import from_bytes, to_bytes
from tests.support.examples import examples
from tests.support.streams.cycles import idle

START_MS = 1_700_000_000_000
EVERY = 10
Changes = list[tuple[int, int, CycleMetric]]
"""(second, column, what changed)."""


def fed(
    series: Floats, bank: CycleBank | None = None, *, first: int = 0, step_ms: int = 1000
) -> tuple[CycleBank, Changes]:
    """The bank, and its changes, after the columns of ``series``, a row every ``step_ms``."""
    bank = bank or CycleBank(series.shape[1])
    changes: Changes = []
    for tick, row in enumerate(series, first):
        bank.update(START_MS + step_ms * tick, row, step_ms)
        if tick % EVERY == EVERY - 1:
            changes += [(tick, *one) for one in bank.changes(START_MS + step_ms * tick)]
    return bank, changes


def column(*parts: Floats) -> Floats:
    return np.concatenate(parts)[:, np.newaxis]


def busy(period: float, length: int, kind: str = "square") -> Floats:
    return Case(kind, 3, period, 10.0, length=length).series()


@pytest.mark.parametrize("kind", ["sine", "square", "sawtooth"])
@pytest.mark.parametrize("true", [8.0, 13.2, 25.0, 40.0, 90.0])
def test_a_cycle_is_locked_on_in_time_and_released_in_time(kind: str, true: float) -> None:
    _, changes = fed(column(idle(200), busy(true, 500, kind), idle(200)))
    begun, ended = changes[0], changes[-1]
    assert begun[2].period_s == pytest.approx(true, rel=0.05)
    assert begun[0] - 200 <= 3 * true + 2 * EVERY
    assert not ended[2].cyclic
    assert 700 <= ended[0] <= 700 + 1.5 * true + 2 * EVERY
    assert len(changes) <= 4


def test_what_has_only_begun_is_found_before_its_third_period_ends() -> None:
    _, changes = fed(column(idle(200), busy(41.0, 300)))
    assert changes[0][2].period_s == pytest.approx(41.0, rel=0.03)
    assert changes[0][0] - 200 < 3 * 41
    assert changes[-1][2].period_s == pytest.approx(41.0, rel=0.005)


def test_a_change_of_cycle_is_found() -> None:
    _, changes = fed(column(busy(25.0, 400), busy(14.0, 300)))
    found = [round(one.period_s or 0) for _, _, one in changes if one.cyclic]
    assert sorted(set(found), key=found.index) == [25, 14]
    assert changes[-1][0] < 400 + 1.5 * 25 + 3 * 14 + 2 * EVERY


def test_a_cycle_begins_when_it_began() -> None:
    _, changes = fed(column(idle(200), busy(20.0, 300)))
    (_, _, found) = changes[0]
    assert found.since_ms is not None
    assert abs(found.since_ms - START_MS - 200_000) <= 20_000


def test_nothing_is_published_twice() -> None:
    _, changes = fed(np.stack([busy(17.0, 1500), 50 + 0 * busy(17.0, 1500)], axis=1))
    assert [(where, one.cyclic) for _, where, one in changes] == [(0, True)]


def test_a_series_that_goes_away_loses_its_cycle() -> None:
    _, changes = fed(column(busy(20.0, 300), np.full(100, np.nan)))
    assert (changes[0][2].cyclic, changes[-1][2].cyclic) == (True, False)
    assert changes[-1][0] > 300


@pytest.mark.parametrize("lost", [0.05, 0.15])
def test_lost_and_jittering_ticks_do_not_hide_a_cycle(lost: float) -> None:
    rng, bank = np.random.default_rng(2), CycleBank(1)
    for second, value in enumerate(busy(22.0, 400)):
        if rng.uniform() >= lost:
            bank.update(START_MS + 1000 * second + int(rng.integers(-200, 200)), np.array([value]))
        if second % EVERY == EVERY - 1:
            bank.changes(START_MS + 1000 * second + 200)
    assert bank.current(0).period_s == pytest.approx(22.0, rel=0.01)


def test_periods_are_in_seconds_whatever_the_interval() -> None:
    bank, _ = fed(column(busy(22.0, 300)), step_ms=100)
    assert bank.current(0).period_s == pytest.approx(2.2, rel=0.01)


def test_another_interval_that_lasts_begins_the_window_anew() -> None:
    bank, _ = fed(column(busy(22.0, 300)))
    assert bank.locked().windows.of(0).size > 200
    for tick in range(ANEW):
        assert bank.locked().interval_ms == 1000
        bank.update(START_MS + 300_000 + 5000 * tick, np.array([1.0]), 5000)
    assert (bank.locked().windows.of(0).size, bank.locked().interval_ms) == (1, 5000)


INTERVALS: dict[str, Callable[[int], int]] = {
    "some milliseconds more or less": lambda tick: 1000 + (3, -3, 0, 7, -7)[tick % 5],
    "a scrape was missed now and then": lambda tick: 2000 if tick % 9 == 8 else 1000,
    "two in a row": lambda tick: 3000 if tick % 14 == 13 else 1000,
}
"""Names of what happens, and the interval before each tick, as a Prometheus' scrapes come."""


@pytest.mark.parametrize("interval", INTERVALS.values(), ids=INTERVALS)
def test_a_cycle_is_found_in_scrapes_that_are_early_late_or_missed(interval: Callable[[int], int]) -> None:
    bank, ts_ms, begun = CycleBank(1), START_MS, None
    for tick in range(60):
        step_ms = interval(tick)
        ts_ms += step_ms
        bank.update(ts_ms, np.array([97.0 if ts_ms // 1000 % 8 < 5 else 10.0]), step_ms)
        if begun is None and any(one.period_s for _, one in bank.changes(ts_ms)):
            begun = tick
    assert begun is not None
    assert bank.current(0).period_s == pytest.approx(8.0, rel=0.03)


@settings(max_examples=examples(30))
@given(
    intervals=st.lists(st.sampled_from([1000, 1004, 2000, 5000]), min_size=1, max_size=12),
    lengths=st.lists(st.integers(1, 25), min_size=12, max_size=12),
    cuts=st.lists(st.integers(1, 7), min_size=1, max_size=5),
)
def test_which_ticks_are_taken_together_changes_nothing(
    intervals: list[int], lengths: list[int], cuts: list[int]
) -> None:
    alone, together, ts_ms = CycleBank(1), CycleBank(1), START_MS
    for interval_ms, length in zip(intervals, lengths, strict=False):
        times = ts_ms + interval_ms * np.arange(1, length + 1)
        ts_ms, begin, cut = int(times[-1]), 0, 0
        for at in times.tolist():
            alone.update(at, np.array([float(at // 1000 % 7)]), interval_ms)
        while begin < length:
            part = times[begin : begin + cuts[cut % len(cuts)]]
            together.extend(part, (part // 1000 % 7).astype(np.float64)[:, np.newaxis], interval_ms)
            together = CycleBank.restore(from_bytes(to_bytes(together.snapshot())))
            begin, cut = begin + len(part), cut + 1
    assert together.snapshot() == alone.snapshot()


def test_series_come_go_and_move() -> None:
    series = np.stack([busy(period, 400) for period in (11.0, 17.0, 29.0)], axis=1)
    bank, _ = fed(series)
    was = [bank.current(place) for place in range(3)]
    bank.resize(np.array([2, -1, 0]))
    assert [bank.current(place) for place in range(3)] == [was[2], NO_CYCLE, was[0]]
    columns, periods_s, *_ = bank.locked()
    assert (columns.tolist(), periods_s.round().tolist()) == ([0, 2], [29, 11])
    _, changes = fed(series[:, [2, 1, 0]], bank, first=400)
    assert {where for _, where, one in changes if one.period_s and abs(one.period_s - 17) < 0.5} == {1}


@given(st.integers(0, 2**31), st.integers(1, 299), st.floats(0, 0.2))
@settings(max_examples=examples(8))
def test_a_restart_leaves_no_trace(seed: int, stop: int, missing: float) -> None:
    rng = np.random.default_rng(seed)
    series = np.stack(
        [busy(9.0, 300), column(busy(30.0, 150), idle(150))[:, 0], rng.normal(size=300)], axis=1
    )
    series[rng.uniform(size=series.shape) < missing] = np.nan
    straight, expected = fed(series)
    before, changes = fed(series[:stop])
    again = CycleBank.restore(from_bytes(to_bytes(before.snapshot())))
    after, more = fed(series[stop:], again, first=stop)
    assert changes + more == expected
    assert to_bytes(after.snapshot()) == to_bytes(straight.snapshot())


@pytest.mark.parametrize(("misses", "expected"), [(1, [NO_CYCLE, None]), (2, [None, NO_CYCLE])])
def test_after_a_restart_a_cycle_is_lost_as_the_settings_say_now(
    misses: int, expected: list[CycleMetric | None]
) -> None:
    plain = fed(column(busy(9.0, 200)))[0].snapshot()
    bank = CycleBank.restore(plain, replace(TICKS, misses=misses))
    assert [bank._take(START_MS + 1000 * tick, 0, None) for tick in (200, 201)] == expected


def test_a_snapshot_of_a_node_is_small() -> None:
    bank, _ = fed(np.random.default_rng(0).normal(size=(650, 24)))
    assert len(to_bytes(bank.snapshot())) < 150_000


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda bank: bank.update(START_MS + 10_000, np.zeros(3)), "2 columns: resize first"),
        (lambda bank: bank.update(START_MS, np.zeros(2)), "not later than"),
        (lambda bank: bank.changes(START_MS - 1), "lies before the last tick"),
        (lambda bank: CycleBank.restore({**bank.snapshot(), "v": 0}), "snapshot of cycles: version 0"),
        (lambda bank: CycleBank.restore(bank.snapshot(), CycleConfig(samples=64)), "600 samples, not 64"),
        (lambda _: CycleConfig(samples=10), "multiple of 4"),
    ],
)
def test_misuse_is_named(wrong: Callable[[CycleBank], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wrong(fed(np.zeros((2, 2)))[0])


@pytest.mark.parametrize("seed", [0, 2])
def test_gpus_of_one_machine_share_what_they_know(seed: int) -> None:
    clear, faint = (Case("square", seed, 23.0, snr, length=300).series() for snr in (10.0, 0.2))
    columns = [np.concatenate((idle(200), one)) for one in (clear, faint)]
    alone = fed(columns[1][:, np.newaxis])[1]
    together = [(tick, one) for tick, place, one in fed(np.column_stack(columns))[1] if place == 1]
    assert [one for *_, one in alone if one.cyclic] == []
    assert [one.period_s for _, one in together] == [pytest.approx(23.0, rel=0.05)]


COMMON: list[tuple[str, list[float], list[float]]] = [
    ("none", [], []),
    ("none of any series", [math.nan, math.nan], []),
    ("one", [12.0, math.nan], [12.0]),
    ("the middle of three that are alike", [12.4, 12.0, 12.1], [12.1]),
    ("between two", [12.0, 12.5], [12.25]),
    ("close from one to the next, far from end to end", [10.0, 10.4, 10.8, 11.2, 11.6], [10.8]),
    ("that of most series comes first", [7.0, 30.0, 30.5], [30.25, 7.0]),
    ("of equals the shortest comes first, and two are enough", [50.0, 20.0, 5.0], [5.0, 20.0]),
]


@pytest.mark.parametrize(("goal", "periods", "expected"), COMMON, ids=[row[0] for row in COMMON])
def test_the_periods_that_most_series_have(goal: str, periods: list[float], expected: list[float]) -> None:
    assert common_periods(np.array(periods, np.float64)).tolist() == pytest.approx(expected), goal


@pytest.mark.parametrize("true", [4.7, 5.83, 7.3, 8.6])
def test_small_dips_after_a_large_step_are_found_before_the_window_has_forgotten_it(true: float) -> None:
    fine = np.arange(2200) / 10
    power = (692.0 - 50 * (fine / true % 1 < 0.8 / true)).reshape(-1, 10).mean(axis=1)
    _, changes = fed(column(idle(40), power + np.random.default_rng(3).normal(size=220)))
    assert changes, "600 W at the start hide dips of 50 W"
    assert changes[0][0] <= 40 + 130
    assert all(one.period_s == pytest.approx(true, rel=0.03) for _, _, one in changes if one.cyclic)


@pytest.mark.parametrize(
    ("found", "known", "expected"),
    [
        (7.0, [3.5], 3.5),
        (10.4, [3.47], 3.467),
        (7.0, [], 7.0),
        (7.4, [3.5], 7.4),  # no multiple
        (14.0, [3.5], 14.0),  # too many steps without a trace
        (60.0, [20.0], 60.0),  # of many samples: a cycle of its own
    ],
)
def test_a_multiple_of_what_kin_have_is_that(found: float, known: list[float], expected: float) -> None:
    one = Detection((FoundCycle(found, 0.97),), np.zeros(64), 0, True)
    assert sampled(one, np.array(known)).cycles[0].period == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(("first", "last"), [(3.74, 3.4), (3.4, 3.74), (4.6, 4.2), (7.3, 6.8)])
def test_steps_that_drift_are_told_on_with_their_newest_period(first: float, last: float) -> None:
    fine = np.cumsum(0.1 / np.interp(np.arange(4000), [0, 4000], [first, last]))
    power = (692.0 - 200 * (fine % 1 < 0.3)).reshape(-1, 10).mean(axis=1)
    bank, changes = fed(column(idle(40), power + 8 * np.random.default_rng(0).normal(size=400)))
    assert [one.cyclic for _, _, one in changes] == [True] * len(changes)
    assert bank.current(0).period_s == pytest.approx(last, rel=0.04)


@pytest.mark.parametrize("restart", [75, 100, 180, 300])
def test_a_slow_cycle_is_found_around_a_quick_one_that_was_found_before_it(restart: int) -> None:
    second = np.arange(700)
    texture = np.where(second % 58 < 8, 0, 60 + 35 * (second / 5.3 % 1 < 0.5))
    series = column(idle(40), texture + np.random.default_rng(0).normal(size=700))
    bank, changes = fed(series[:restart])
    bank = CycleBank.restore(from_bytes(to_bytes(bank.snapshot())))
    _, later = fed(series[restart:], bank, first=restart)
    told = changes + later
    assert told == fed(series)[1], "a restart leaves no trace"
    assert told[0][2].period_s == pytest.approx(5.3, rel=0.03)
    assert told[-1][2].period_s == pytest.approx(58, rel=0.03)
    slow = next(tick for tick, _, one in told if one.period_s and one.period_s > 50)
    assert slow <= 40 + 4.5 * 58, "the quick one hides it"


@pytest.mark.parametrize(
    ("found", "confidence", "true", "expected"),
    [
        (60.0, 0.95, 20.0, 20.0),
        (40.0, 0.97, 20.0, 20.0),
        (50.0, 0.95, 20.0, 50.0),  # no multiple
        (20.0, 0.95, 60.0, 20.0),  # the half shows something slower
        (18.0, 0.95, 6.0, 18.0),  # too quick for this scale
    ],
)
def test_a_multiple_gives_way_to_what_the_newest_half_shows(
    found: float, confidence: float, true: float, expected: float
) -> None:
    cycles = FoundCycle(found, confidence), FoundCycle(7.7, 0.9)
    one = Detection(cycles, busy(true, 600), 0, True)
    (answer,) = shortest([one], least=8)
    assert [cycle.period for cycle in answer.cycles] == pytest.approx([expected, 7.7], rel=0.01)


@pytest.mark.parametrize(
    ("shape", "found", "expected"),
    [
        ([5.0, 0.0, 2.0, 3.0, 1.0, 2.0, 0.0, 2.0], 4.03, 8.06),  # unlike itself after four, alike after eight
        ([5.0, 0.0, 2.0, 3.0], 4.03, 4.03),
        ([5.0, 0.0, 2.0, 3.0, 1.0, 2.0, 0.0, 2.0], 4.4, 4.4),  # each tick falls into another phase
        ([5.0, 0.0, 2.0, 3.0, 1.0, 2.0, 0.0, 2.0, 4.0, 1.0, 0.0, 3.0, 3.0, 1.0, 2.0, 0.0], 4.03, 4.03),
        ([3.0], 4.03, 4.03),
    ],
)
def test_of_few_ticks_a_period_is_that_after_which_they_are_alike(
    shape: list[float], found: float, expected: float
) -> None:
    detection = Detection((FoundCycle(found, 0.98),), np.tile(shape, 80)[:40], 0, True)
    assert repeating(detection).cycles[0].period == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(6))
def test_beside_a_multiple_of_its_period_a_series_is_told_its_own(seed: int) -> None:
    """Idle samples where it begins make a multiple that others have seem likelier."""
    rng, second = np.random.default_rng(seed), np.arange(120)
    others = np.where(second % 12 < 2, 5.0, 98.0) + rng.normal(size=120)
    steps = np.where(second % 6 < 5, 98.0, 5.0) + rng.normal(size=120)
    begun = np.concatenate((np.zeros(19), steps))[:120]
    _, changes = fed(np.column_stack((others, begun)))
    told = {column: [cycle.period_s for _, at, cycle in changes if at == column] for column in (0, 1)}
    assert told[0] == pytest.approx([12.0] * len(told[0]), rel=0.03)
    assert told[1] == pytest.approx([6.0] * len(told[1]), rel=0.03)
    assert told[0]
    assert told[1]


@pytest.mark.parametrize("kind", ["sine", "square", "sawtooth"])
@pytest.mark.parametrize("true", [40.0, 60.0])
def test_what_goes_on_for_less_than_half_a_minute_needs_more_periods(true: float, kind: str) -> None:
    """Three repetitions where a run begins may be what warms up."""
    _, changes = fed(column(idle(300), busy(true, 600, kind)), step_ms=100)
    tick, _, found = changes[0]
    assert found.period_s == pytest.approx(true / 10, rel=0.03)
    assert 4.5 * true <= tick - 299 <= 350
