"""What of many results is published."""

import msgspec
import pytest
from msgspec.structs import replace

from dutycycle.contract.records.derived import CycleMetric
from streams.operators.cycles.result import NO_CYCLE
from streams.operators.cycles.tracker import CycleTracker
from streams.state.codec import from_bytes, to_bytes
from tests.support.streams.cycles import cycle


def published(
    answers: list[CycleMetric], every_s: int = 10, tracker: CycleTracker | None = None
) -> list[tuple[int, float | None]]:
    """(number of the result, period) of each result that was published."""
    tracker = tracker or CycleTracker()
    changes = [tracker.update(number * every_s * 1000, answer) for number, answer in enumerate(answers)]
    return [(number, one.period_s) for number, one in enumerate(changes) if one is not None]


CASES = {
    "no cycle is no change": ([NO_CYCLE] * 5, []),
    "a cycle, once": ([NO_CYCLE, cycle(13.0), cycle(13.1), cycle(12.9)], [(1, 13.0)]),
    "a miss or two is nothing": ([cycle(13), NO_CYCLE, NO_CYCLE, cycle(13), NO_CYCLE], [(0, 13)]),
    "three misses in a row are the end": ([cycle(13), *[NO_CYCLE] * 4], [(0, 13), (3, None)]),
    "found again": ([cycle(13), NO_CYCLE, NO_CYCLE, NO_CYCLE, cycle(13)], [(0, 13), (3, None), (4, 13)]),
    "another period is confirmed first": ([cycle(13), cycle(21), cycle(21)], [(0, 13), (2, 21)]),
    "one that is not confirmed is nothing": ([cycle(13), cycle(21), cycle(13), cycle(21)], [(0, 13)]),
    "a multiple is confirmed for longer": ([cycle(13)] + [cycle(26)] * 7, [(0, 13), (6, 26)]),
    "a fraction too": ([cycle(60)] + [cycle(20)] * 5 + [cycle(60)], [(0, 60)]),
    "less than 2 % is the same": ([cycle(100), *[cycle(101.9)] * 20], [(0, 100)]),
    "a little more is published after a minute": ([cycle(100), *[cycle(103)] * 8], [(0, 100), (6, 103)]),
    "drift adds up": ([cycle(100 + k / 4) for k in range(12)], [(0, 100), (10, 102.5)]),
    "a further cycle is a change": ([cycle(13)] + [cycle(13, 70)] * 8, [(0, 13), (6, 13)]),
}  # fmt: skip


@pytest.mark.parametrize(("answers", "expected"), CASES.values(), ids=CASES)
def test_what_is_published(answers: list[CycleMetric], expected: list[tuple[int, float | None]]) -> None:
    assert published(answers) == expected


@pytest.mark.parametrize(
    ("periods", "later_s", "changes"),
    [(2.5, 101.0, [(0, 100), (6, 101.0)]), (2.5, 100.4, [(0, 100)]), (10, 101.0, [(0, 100)])],
)
def test_what_was_found_in_few_periods_is_published_exactly_once_it_is_known(
    periods: float, later_s: float, changes: list[tuple[int, float]]
) -> None:
    first, later = (cycle(one, since_ms=round(-100_000 * periods)) for one in (100, later_s))
    assert published([first, *[later] * 20]) == changes


def test_a_cycle_keeps_its_beginning_while_it_drifts() -> None:
    tracker = CycleTracker()
    tracker.update(0, cycle(100, since_ms=-400_000))
    changes = [tracker.update(s * 10_000, cycle(104, since_ms=-100_000)) for s in range(1, 9)]
    (one,) = [answer for answer in changes if answer is not None]
    assert (one.period_s, one.since_ms) == (104, -400_000)


def test_a_cycle_that_was_not_confirmed_is_in_doubt_until_it_is() -> None:
    tracker = CycleTracker()
    doubts = []
    for place, answer in enumerate([cycle(13), NO_CYCLE, cycle(13), cycle(26), cycle(13)]):
        tracker.update(place * 10_000, answer)
        doubts.append(tracker.is_in_doubt)
    assert doubts == [False, True, False, True, False]


def test_the_end_of_a_cycle_is_published_once() -> None:
    tracker = CycleTracker()
    tracker.update(0, cycle(13))
    tracker.release(10_000)
    assert [tracker.update(ts_ms, NO_CYCLE) for ts_ms in (10_000, 20_000)] == [NO_CYCLE, None]


@pytest.mark.parametrize(
    ("period_s", "again_s", "locked_s"),
    [
        (25, 10, None),  # nearly twice: it may be the same
        (37, 10, None),
        (26, 200, 26.0),  # so long after the end it may well be another run
        (21, 10, 21.0),
        (6.5, 10, 6.5),
    ],
)
def test_soon_after_a_cycle_has_ended_its_multiple_is_confirmed_first(
    period_s: float, again_s: int, locked_s: float | None
) -> None:
    tracker = CycleTracker()
    tracker.update(0, cycle(13))
    tracker.release(300_000)
    begin_ms = 300_000 + 1000 * again_s
    first = tracker.update(begin_ms, cycle(period_s))
    assert first is not None
    assert first.period_s == locked_s, "what has ended is not told any more"
    more = tracker.update(begin_ms + 10_000, cycle(period_s))
    assert (None if more is None else more.period_s) == (period_s if locked_s is None else None)


def test_a_cycle_that_comes_back_is_told_at_once_whatever_multiple_was_seen_between() -> None:
    tracker = CycleTracker()
    tracker.update(0, cycle(13))
    tracker.release(300_000)
    tracker.update(310_000, cycle(39))
    again = tracker.update(320_000, cycle(13))
    assert again is not None
    assert again.period_s == 13


GOES_ON, NOTHING = [cycle(13)] * 20, [NO_CYCLE] * 3
PAUSES = {
    "once it has paused it is told through a pause": (
        [*GOES_ON, *NOTHING * 2, *GOES_ON, *NOTHING * 2, *GOES_ON, *NOTHING * 2, *GOES_ON],
        [(0, 13), (22, None), (26, 13)],
    ),
    "one that lasts for longer is the end": (
        [*GOES_ON, *NOTHING * 2, *GOES_ON, *NOTHING * 5],
        [(0, 13), (22, None), (26, 13), (54, None)],
    ),
    "what goes on after a long time has not paused": (
        [*GOES_ON, *NOTHING * 5, *GOES_ON, *NOTHING * 2],
        [(0, 13), (22, None), (35, 13), (57, None)],
    ),
    "what was there for a short time has not paused": (
        [*[cycle(13)] * 5, *NOTHING * 2, *GOES_ON, *NOTHING * 2],
        [(0, 13), (7, None), (11, 13), (33, None)],
    ),
    "another cycle is told at once, and has not paused yet": (
        [*GOES_ON, *NOTHING * 2, *GOES_ON, *NOTHING, *[cycle(21)] * 20, *NOTHING],
        [(0, 13), (22, None), (26, 13), (49, 21), (71, None)],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("answers", "expected"), PAUSES.values(), ids=PAUSES)
def test_a_cycle_that_pauses(answers: list[CycleMetric], expected: list[tuple[int, float | None]]) -> None:
    assert published(answers) == expected


def test_while_it_pauses_it_is_the_current_one_and_looked_for() -> None:
    tracker = CycleTracker()
    published([*GOES_ON, *NOTHING * 2, *GOES_ON, *NOTHING], tracker=tracker)
    assert (tracker.period_s, tracker.current, tracker.is_in_doubt) == (None, cycle(13), True)


@pytest.mark.parametrize("stop", range(0, 60, 7))
def test_a_restart_leaves_no_trace(stop: int) -> None:
    answers = [cycle(13, 70), NO_CYCLE, cycle(26), cycle(13.4)] * 8
    answers += [*GOES_ON, *NOTHING * 2, *GOES_ON, *NOTHING * 2]
    answers = [replace(answer, since_ms=0) if answer.cyclic else answer for answer in answers]
    one, other = CycleTracker(), CycleTracker()
    for place, answer in enumerate(answers):
        if place == stop:
            other = msgspec.convert(from_bytes(to_bytes(other)), CycleTracker)
        assert one.update(place * 10_000, answer) == other.update(place * 10_000, answer)
        assert (one.is_in_doubt, one.has_told) == (other.is_in_doubt, other.has_told)
    assert one == other
