"""Windows: which ticks they hold, when they close, and what they say."""

import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.operators.node.window import ClosedWindow, WindowBank

ONE = np.zeros(1, np.int64)


def bank(sizes: tuple[int, ...] = (10_000,), lateness: int = 10_000, width: int = 1) -> WindowBank:
    made = WindowBank(sizes, lateness)
    made.resize(np.full(width, -1))
    return made


def run(made: WindowBank, ticks: list[tuple[int, float]]) -> tuple[list[ClosedWindow], int]:
    """Feed (second, value); the closed windows and how many ticks were late."""
    watermark, closed, late = ticks[0][0] * 1000, [], 0
    for second, value in ticks:
        late += not made.add(second * 1000, ONE, np.array([value]), watermark)
        watermark = max(watermark, second * 1000)
        closed += made.advance(watermark)
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
    (minute,) = (window for window in made.close() if window.size_ms == 60_000)
    assert (minute.count[0], minute.high[0]) == (3, 5.0)


def test_absent_is_not_zero() -> None:
    made = bank(width=2)
    for second, values in enumerate([[1.0, np.nan], [3.0, np.nan]]):
        made.add(second * 1000, np.arange(2), np.array(values), second * 1000)
    (window,) = made.close()
    assert window.count.tolist() == [2, 0]
    assert window.low[0] == 1.0
    assert math.isnan(window.low[1])


values = st.integers(-(10**12), 10**12).map(lambda number: number / 1000)


@given(st.lists(st.tuples(st.integers(0, 9), values), min_size=1, max_size=40))
def test_statistics_are_the_textbooks(ticks: list[tuple[int, float]]) -> None:
    made = bank()
    for second, value in ticks:
        made.add(second * 1000, ONE, np.array([value]), 0)
    (window,) = made.close()
    found = [value for _, value in ticks]
    scale = max(map(abs, found)) or 1.0
    assert window.count[0] == len(found)
    assert (window.low[0], window.high[0]) == (min(found), max(found))
    assert window.mean[0] == pytest.approx(statistics.fmean(found), abs=1e-9 * scale)
    assert window.std[0] == pytest.approx(statistics.pstdev(found), abs=1e-6 * scale)
    for got, q in zip(window.percentiles, (50, 95, 99), strict=True):
        assert got[0] == pytest.approx(np.percentile(found, q), abs=1e-9 * scale)
    assert window.low[0] <= window.mean[0] <= window.high[0]


@given(st.permutations([(s, float(s * s % 7)) for s in range(12)]))
def test_the_order_of_arrival_within_lateness_does_not_matter(ticks: list[tuple[int, float]]) -> None:
    made, straight = bank(), bank()
    for second, value in ticks:
        assert made.add(second * 1000, ONE, np.array([value]), 11_000)
    for second, value in sorted(ticks):
        straight.add(second * 1000, ONE, np.array([value]), 11_000)
    for got, expected in zip(made.close(), straight.close(), strict=True):
        assert (got.start_ms, got.mean.tobytes(), got.std.tobytes()) == (
            expected.start_ms, expected.mean.tobytes(), expected.std.tobytes(),
        )  # fmt: skip


def test_memory_is_bounded_by_the_longest_window() -> None:
    made = bank(sizes=(10_000, 60_000))
    run(made, [(second, 1.0) for second in range(5000)])
    assert len(made.snapshot()["times"]) <= 60 + 60 + 10


@given(st.lists(st.integers(0, 120), min_size=2, max_size=60), st.integers(1, 59))
def test_restart_equals_no_restart(seconds: list[int], cut: int) -> None:
    ticks = [(second, float(second % 5)) for second in seconds]
    whole, cut_one = bank((10_000, 20_000)), bank((10_000, 20_000))
    before, _ = run(cut_one, ticks[:cut])
    again = WindowBank((10_000, 20_000), 10_000)
    again.restore(cut_one.snapshot(), 1)
    watermark = max(second for second, _ in ticks[:cut]) * 1000
    for second, value in ticks[cut:]:
        again.add(second * 1000, ONE, np.array([value]), watermark)
        watermark = max(watermark, second * 1000)
        before += again.advance(watermark)
    expected = run(whole, ticks)[0] + whole.close()
    got = before + again.close()
    assert [(w.start_ms, w.size_ms, w.mean.tobytes()) for w in got] == [
        (w.start_ms, w.size_ms, w.mean.tobytes()) for w in expected
    ]
