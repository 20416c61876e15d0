"""Windows: which ticks they hold, when they close, and what they say."""

import math
import statistics
from collections.abc import Callable
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.operators.columns.arrays import Floats
from streams.operators.columns.series import GAUGE, NO_POWER
from streams.operators.node.figures import FIGURES, ClosedWindow
from streams.operators.node.window import WindowBank


def bank(sizes: tuple[int, ...] = (10_000,), lateness: int = 10_000, width: int = 1) -> WindowBank:
    made = WindowBank(sizes, lateness)
    made.resize(np.full(width, -1), np.full(width, GAUGE))
    return made


def counter_bank(sizes: tuple[int, ...] = (10_000,)) -> WindowBank:
    made = WindowBank(sizes, 10_000)
    made.resize(np.full(1, -1), np.full(1, NO_POWER))
    return made


def add(made: WindowBank, ts_ms: int, row: Floats, watermark_ms: int) -> bool:
    """Give one tick, late or not; whether that was in time for all windows."""
    return made.extend(np.array([ts_ms]), row[np.newaxis], watermark_ms=watermark_ms)


def advanced(made: WindowBank, watermark_ms: float) -> list[ClosedWindow]:
    """What closes: nothing waits of what came before ``watermark_ms``."""
    made.end(watermark_ms)
    return made.advance(watermark_ms)


def run(made: WindowBank, ticks: list[tuple[int, float]]) -> tuple[list[ClosedWindow], int]:
    """Feed (second, value); the closed windows and how many ticks were late."""
    watermark, closed, late = ticks[0][0] * 1000, [], 0
    for second, value in ticks:
        late += not add(made, second * 1000, np.array([value]), watermark)
        watermark = max(watermark, second * 1000)
        closed += advanced(made, watermark)
    return closed, late


# One character a second; | is where the window [10, 20) closes with ten seconds of lateness.
#   seconds  10        20        30
#            |---------|---------|
#            xxxxxxxxxx.........x|
CLOSES = [
    ("open until lateness has passed", [(s, 1.0) for s in range(10, 30)], []),
    ("closes when the watermark is there", [(10, 1.0), (30, 1.0)], [10]),
    ("a gap closes what it leaves behind", [(10, 1.0), (55, 1.0)], [10]),
    ("each closes by itself", [(s, 1.0) for s in range(10, 41)], [10, 20]),
]


@pytest.mark.parametrize(("goal", "ticks", "starts"), CLOSES, ids=[row[0] for row in CLOSES])
def test_when_a_window_closes(goal: str, ticks: list[tuple[int, float]], starts: list[int]) -> None:
    closed, late = run(bank(), ticks)
    assert [window.start_ms // 1000 for window in closed] == starts, goal
    assert late == 0


LATE = [
    ("in order", [10, 11, 12], 0),
    ("out of order within lateness", [10, 25, 11], 0),
    ("the last millisecond of lateness is in time", [10, 29, 11], 0),
    ("late", [10, 30, 11], 1),
    ("late for the window before, in time for its own", [10, 30, 20], 0),
]


@pytest.mark.parametrize(("goal", "seconds", "late"), LATE, ids=[row[0] for row in LATE])
def test_what_is_late(goal: str, seconds: list[int], late: int) -> None:
    assert run(bank(), [(second, 1.0) for second in seconds])[1] == late, goal


def test_a_tick_can_be_late_for_one_size_and_in_time_for_another() -> None:
    made = bank(sizes=(10_000, 60_000))
    closed, late = run(made, [(10, 1.0), (31, 1.0), (12, 5.0)])
    assert (len(closed), late) == (1, 1)
    (minute,) = (window for window in advanced(made, inf) if window.size_ms == 60_000)
    assert (minute.of("count")[0], minute.of("max")[0]) == (3, 5.0)


def test_absent_is_not_zero() -> None:
    made = bank(width=2)
    for second, values in enumerate([[1.0, np.nan], [3.0, np.nan]]):
        add(made, second * 1000, np.array(values), second * 1000)
    (window,) = advanced(made, inf)
    assert window.of("count").tolist() == [2, 0]
    assert window.of("min")[0] == 1.0
    assert math.isnan(window.of("min")[1])


values = st.integers(-(10**12), 10**12).map(lambda number: number / 1000)


@given(st.lists(st.tuples(st.integers(0, 9), values), min_size=1, max_size=40))
def test_statistics_are_the_textbooks(ticks: list[tuple[int, float]]) -> None:
    made = bank()
    for second, value in ticks:
        add(made, second * 1000, np.array([value]), 0)
    (window,) = advanced(made, inf)
    found = [value for _, value in ticks]
    scale = max(map(abs, found)) or 1.0
    got = dict(zip(FIGURES, window.figures[0].tolist(), strict=True))
    assert got["count"] == len(found)
    assert (got["min"], got["max"]) == (min(found), max(found))
    assert got["mean"] == pytest.approx(statistics.fmean(found), abs=1e-9 * scale)
    assert got["std"] == pytest.approx(statistics.pstdev(found), abs=1e-6 * scale)
    for q in (50, 95, 99):
        assert got[f"p{q}"] == pytest.approx(np.percentile(found, q), abs=1e-9 * scale)
    assert got["min"] <= got["mean"] <= got["max"]
    assert math.isnan(got["increase"])


# (second, value) of a counter -> increase by start of the window; None: there is none.
INCREASES = [
    ("a step counts where it ends", [(8, 100.0), (9, 110.0), (10, 125.0), (11, 126.0)], {0: 10, 10: 16}),
    ("a first value is no step", [(3, 100.0)], {0: None}),
    ("a counter that stands still", [(3, 100.0), (4, 100.0)], {0: 0}),
    ("a reset adds nothing", [(3, 100.0), (4, 110.0), (5, 2.0), (6, 5.0)], {0: 13}),
    ("a reset between windows", [(8, 100.0), (9, 110.0), (10, 2.0), (11, 5.0)], {0: 10, 10: 3}),
    ("only a reset is not known", [(9, 110.0), (10, 2.0)], {0: None, 10: None}),
    ("a read of 0 is none", [(3, 5e7), (4, 5e7 + 100), (5, 0.0), (6, 5e7 + 300)], {0: 300}),
    ("a first read of 0", [(8, 0.0), (9, 5e7), (10, 0.0), (21, 5e7 + 9)], {0: None, 10: None, 20: 9}),
    ("falls and comes back", [(3, 100.0), (4, 110.0), (5, 50.0), (6, 130.0), (7, 131.0)], {0: 31}),
    ("falls and comes back later", [(8, 100.0), (9, 50.0), (10, 130.0), (11, 131.0)], {0: None, 10: 31}),
    ("comes back after a standstill", [(3, 100.0), (4, 50.0), (5, 50.0), (6, 130.0)], {0: 30}),
    ("a gap counts where it ends", [(3, 100.0), (4, 110.0), (45, 150.0)], {0: 10, 40: 40}),
    ("what is absent is bridged", [(3, 100.0), (4, math.nan), (5, 130.0)], {0: 30}),
    ("a window of absent values", [(3, 1.0), (4, 2.0), (15, math.nan), (25, 9.0)], {0: 1, 10: None, 20: 7}),
    ("out of order", [(3, 100.0), (5, 130.0), (4, 110.0)], {0: 30}),
    ("a late tick's step counts later", [(8, 1.0), (9, 2.0), (31, 8.0), (9, 5.0), (32, 9.0)], {0: 1, 30: 7}),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "ticks", "expected"), INCREASES, ids=[row[0] for row in INCREASES])
def test_a_counter_has_its_increase(
    goal: str, ticks: list[tuple[int, float]], expected: dict[int, float | None]
) -> None:
    made = counter_bank()
    closed = run(made, ticks)[0] + advanced(made, inf)
    found = {window.start_ms // 1000: dict(zip(FIGURES, window.figures[0], strict=True)) for window in closed}
    increases = {start: of["increase"] for start, of in found.items()}
    assert {start: None if math.isnan(one) else one for start, one in increases.items()} == expected, goal
    assert all(math.isnan(of[name]) for of in found.values() for name in FIGURES[1:-1]), "it is no gauge"


# (counter, watts) of each second -> the increase of the window, and the values that were read.
STALLS = [
    ("it moves", [(100, 50), (150, 50), (200, 50)], 100, 3),
    ("it stands still and moves again", [(100, 50), (100, 50), (200, 50)], 100, 2),
    ("it stands still for good", [(100, 50), (100, 50), (100, 50)], None, 1),
    ("asleep", [(100, 0.5), (100, 0.5), (100, 0.5)], 0, 3),
    ("nobody knows the power", [(100, math.nan), (100, math.nan)], 0, 2),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "ticks", "increase", "count"), STALLS, ids=[row[0] for row in STALLS])
def test_a_counter_that_stands_still_while_power_is_drawn_is_not_read(
    goal: str, ticks: list[tuple[float, float]], increase: float | None, count: int
) -> None:
    made = WindowBank((10_000,), 10_000)
    made.resize(np.full(2, -1), np.array([1, GAUGE]))
    for second, row in enumerate(ticks):
        add(made, 1000 * second, np.array(row, np.float64), 0)
    (window,) = advanced(made, inf)
    told = window.of("increase")[0]
    assert (None if math.isnan(told) else told, window.of("count")[0]) == (increase, count), goal


@given(st.lists(st.integers(0, 50), min_size=2, max_size=90))
def test_the_increases_of_all_windows_are_the_whole(steps: list[int]) -> None:
    made = counter_bank((10_000, 60_000))
    values = (1 + np.cumsum(steps)).tolist()
    closed = run(made, list(enumerate(map(float, values))))[0] + advanced(made, inf)
    for size in (10_000, 60_000):
        increases = [window.of("increase")[0] for window in closed if window.size_ms == size]
        assert np.nansum(increases) == values[-1] - values[0]


@given(st.permutations([(s, float(s * s % 7)) for s in range(12)]))
def test_the_order_of_arrival_within_lateness_does_not_matter(ticks: list[tuple[int, float]]) -> None:
    made, straight = bank(), bank()
    for second, value in ticks:
        assert add(made, second * 1000, np.array([value]), 11_000)
    for second, value in sorted(ticks):
        add(straight, second * 1000, np.array([value]), 11_000)
    for got, expected in zip(advanced(made, inf), advanced(straight, inf), strict=True):
        assert (got.start_ms, got.figures.tobytes()) == (expected.start_ms, expected.figures.tobytes())


def test_memory_is_bounded_by_the_longest_window() -> None:
    made = bank(sizes=(10_000, 60_000))
    run(made, [(second, 1.0) for second in range(5000)])
    assert len(made.snapshot()["times"]) <= 60 + 60 + 10


@pytest.mark.parametrize("made", [bank, counter_bank], ids=["gauge", "counter"])
@given(seconds=st.lists(st.integers(0, 120), min_size=2, max_size=60), cut=st.integers(1, 59))
def test_restart_equals_no_restart(
    made: Callable[[tuple[int, ...]], WindowBank], seconds: list[int], cut: int
) -> None:
    ticks = [(second, float(second % 5)) for second in seconds]
    whole, cut_one = made((10_000, 20_000)), made((10_000, 20_000))
    before, _ = run(cut_one, ticks[:cut])
    again = WindowBank((10_000, 20_000), 10_000)
    again.restore(cut_one.snapshot(), np.array([NO_POWER if made is counter_bank else GAUGE]))
    watermark = max(second for second, _ in ticks[:cut]) * 1000
    for second, value in ticks[cut:]:
        add(again, second * 1000, np.array([value]), watermark)
        watermark = max(watermark, second * 1000)
        before += advanced(again, watermark)
    expected = run(whole, ticks)[0] + advanced(whole, inf)
    got = before + advanced(again, inf)
    assert [(w.start_ms, w.size_ms, w.figures.tobytes()) for w in got] == [
        (w.start_ms, w.size_ms, w.figures.tobytes()) for w in expected
    ]
