"""Event time of a node: duplicates, the watermark, and clocks that jump."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.operators.columns.tick import TickRow, make_layout
from streams.operators.node.watermark import CONFIRMING_TICKS, MOST_HELD, Timeline

EMPTY = np.zeros(0)
HOUR = 3600


def tick(second: int, seq: int, collector: str = "c") -> TickRow:
    return TickRow(collector, seq, second * 1000, 1000, make_layout((), ()), EMPTY)


def run(timeline: Timeline, ticks: list[TickRow]) -> tuple[list[int], dict[str, int]]:
    """The seconds that counted, in order, and what was noticed."""
    counted: list[int] = []
    noticed: dict[str, int] = {}
    for one in ticks:
        now, happened = timeline.admit(one, b"{}")
        counted += [that.ts_ms // 1000 for that in now]
        for event in happened:
            noticed[event.event] = noticed.get(event.event, 0) + event.count
    return counted, noticed


AHEAD = list(range(HOUR, HOUR + CONFIRMING_TICKS))
CASES: list[tuple[str, list[tuple[int, int]], list[int], dict[str, int]]] = [
    ("in order", [(1, 1), (2, 2)], [1, 2], {}),
    ("a tick seen twice counts once", [(1, 1), (2, 2), (1, 1)], [1, 2], {"sample_duplicate": 1}),
    ("out of order is no duplicate", [(1, 1), (3, 3), (2, 2)], [1, 3, 2], {}),
    ("an hour ahead, once", [(1, 1), (HOUR, 2), (2, 3)], [1, 2], {"clock_jump": 1}),
    ("two an hour ahead", [(1, 1), (HOUR, 2), (HOUR + 1, 3), (2, 4)], [1, 2], {"clock_jump": 2}),
    (
        "time did move on",
        [(1, 1), *((second, 2 + n) for n, second in enumerate(AHEAD))],
        [1, *AHEAD],
        {"sample_gap": 1},
    ),
    ("a clock that stands still is not confirmed", [(1, 1), *((HOUR, n) for n in range(2, 300))], [1],
     {"clock_jump": MOST_HELD}),
    ("several ticks have one stamp", [(1, 1), *((at, n) for n, at in enumerate(sorted(AHEAD * 2), 2))],
     [1, *sorted(AHEAD * 2)], {"sample_gap": 1}),
    ("five minutes are a pause, not a jump", [(1, 1), (301, 2)], [1, 301], {"sample_gap": 1}),
    ("a wrong seq costs itself alone", [(1, 1), (2, 10**15), (3, 2), (4, 3)], [1, 2, 3, 4], {}),
    (
        "the clock is set back: ten agree, and an epoch begins",
        [(HOUR + second, second) for second in range(3)] + [(second, second) for second in range(3, 14)],
        [HOUR, HOUR + 1, HOUR + 2, *range(3, 14)], {"clock_set_back": 1},
    ),
    ("nine of long ago are late", [(HOUR, 0), *((second, second) for second in range(1, 10)), (HOUR + 1, 10)],
     [HOUR, *range(1, 10), HOUR + 1], {}),
    ("of long ago, one by one", [(HOUR, 0), (1, 1), (HOUR + 1, 2), (2, 3), (HOUR + 2, 4)],
     [HOUR, 1, HOUR + 1, 2, HOUR + 2], {}),
    ("of long ago, in disorder", [(HOUR, 0), *((100 - n, n) for n in range(1, 30)), (HOUR + 1, 40)],
     [HOUR, *(100 - n for n in range(1, 30)), HOUR + 1], {}),
    ("ahead while some of long ago are held", [(HOUR, 0), (1, 1), (3 * HOUR, 2), (HOUR + 1, 3)],
     [HOUR, 1, HOUR + 1], {"clock_jump": 1}),
    ("a pause of a minute is none", [(1, 1), (61, 2), (62, 3)], [1, 61, 62], {}),
    ("samples are missing", [(1, 1), (62, 2), (63, 3)], [1, 62, 63], {"sample_gap": 1}),
    ("a clock set forward by ten minutes", [(1, 1), *((601 + n, 2 + n) for n in range(12))],
     [1, *(601 + n for n in range(12))], {"sample_gap": 1}),
    ("a repeat from long ago", [(1, 1), (200, 5000), (1, 1)], [1, 200],
     {"sample_gap": 1, "sample_duplicate": 1}),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "ticks", "counted", "noticed"), CASES, ids=[row[0] for row in CASES])
def test_what_counts(
    goal: str, ticks: list[tuple[int, int]], counted: list[int], noticed: dict[str, int]
) -> None:
    assert run(Timeline(), [tick(second, seq) for second, seq in ticks]) == (counted, noticed), goal


def test_a_restarted_collector_counts_from_zero_again() -> None:
    assert run(Timeline(), [tick(1, 7, "old"), tick(2, 0, "new"), tick(3, 1, "new")])[0] == [1, 2, 3]


PRODUCERS: list[tuple[str, list[tuple[int, str, int]], int]] = [
    ("a restart, and the spool of before it first", [(1, "a", 7), (2, "b", 0), (3, "b", 1)], 0),
    ("in turn", [(1, "a", 0), (1, "b", 0), (2, "a", 1), (2, "b", 1), (3, "b", 2)], 2),
    ("three starts", [(1, "a", 0), (2, "b", 0), (3, "c", 0), (4, "c", 1)], 0),
    ("one that was replaced comes back", [(1, "a", 0), (2, "b", 0), (3, "a", 1), (4, "a", 2)], 1),
]


@pytest.mark.parametrize(("goal", "ticks", "count"), PRODUCERS, ids=[row[0] for row in PRODUCERS])
def test_two_collectors_of_one_node_are_noticed_and_all_their_ticks_count(
    goal: str, ticks: list[tuple[int, str, int]], count: int
) -> None:
    counted, noticed = run(Timeline(), [tick(second, seq, collector) for second, collector, seq in ticks])
    assert counted == [second for second, _, _ in ticks], goal
    assert noticed == ({"duplicate_producer": count} if count else {})


def test_repeats_of_a_spool_are_no_duplicate_producer() -> None:
    """What two starts sent, once more after a broker was killed: told as repeats alone."""
    ticks = [tick(1, 0, "a"), tick(2, 0, "b"), tick(1, 0, "a"), tick(2, 0, "b"), tick(3, 1, "b")]
    assert run(Timeline(), ticks)[1] == {"sample_duplicate": 2}


numbers = st.lists(st.integers(0, 40), max_size=60)


@given(numbers)
def test_every_tick_counts_once(seqs: list[int]) -> None:
    counted, noticed = run(Timeline(), [tick(seq, seq) for seq in seqs])
    assert sorted(counted) == sorted(set(seqs))
    assert noticed.get("sample_duplicate", 0) == len(seqs) - len(set(seqs))


seconds = st.lists(st.tuples(st.integers(0, 3 * HOUR), st.integers(0, 40)), max_size=40)


@given(seconds, st.integers(0, 40))
def test_the_watermark_goes_back_with_an_epoch_alone_and_a_restart_changes_nothing(
    ticks: list[tuple[int, int]], cut: int
) -> None:
    whole, timeline = Timeline(), Timeline()
    watermark, epoch_ms = -1, 0
    for number, (second, seq) in enumerate(ticks):
        if number == cut:
            again = Timeline()
            plain: dict[str, Any] = timeline.snapshot()
            again.restore(plain, timeline.held)
            timeline = again
        assert timeline.admit(tick(second, seq), b"{}")[1] == whole.admit(tick(second, seq), b"{}")[1]
        now = timeline.watermark_ms if timeline.watermark_ms is not None else -1
        assert now >= watermark or timeline.epoch_ms != epoch_ms
        watermark, epoch_ms = now, timeline.epoch_ms
    assert timeline.snapshot() == whole.snapshot()
