"""What of many results is published."""

import json

import pytest

from streams.operators.cycles.result import NO_CYCLE, CycleResult
from streams.operators.cycles.tracker import CycleTracker
from tests.support.streams.cycles import cycle


def published(
    answers: list[CycleResult], every_s: int = 10, tracker: CycleTracker | None = None
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
def test_what_is_published(answers: list[CycleResult], expected: list[tuple[int, float | None]]) -> None:
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


GAINS = {
    "steady": ([1.0] * 40, None),
    "noisy": ([1.0, 0.7, 1.2, 0.9, 1.3, 0.6] * 6, None),
    "ends at once": ([1.0] * 10 + [0.0], 10),
    "ends after long": ([1.0] * 70 + [0.1], 70),
    "wanes": ([1.0, 1.0, 1.0, 0.9, 0.7, 0.4, 0.2], 6),
}


@pytest.mark.parametrize(("gains", "end"), GAINS.values(), ids=GAINS)
def test_a_lock_is_released_when_the_newest_periods_no_longer_follow(
    gains: list[float], end: int | None
) -> None:
    tracker = CycleTracker()
    tracker.update(0, cycle(13))
    released = next(
        (place for place, gain in enumerate(gains) if tracker.follow(place * 10_000, gain, 0.1)),
        None,
    )
    assert released == end
    if end is not None:
        assert tracker.period_s is None
        assert tracker.update(10_000, NO_CYCLE) == NO_CYCLE


def test_what_its_noise_explains_is_no_end() -> None:
    tracker = CycleTracker()
    tracker.update(0, cycle(13))
    assert not any(tracker.follow(10_000, gain, 0.5) for gain in [1.0] * 10 + [0.0])


@pytest.mark.parametrize("stop", range(0, 60, 7))
def test_a_restart_leaves_no_trace(stop: int) -> None:
    answers = [cycle(13, 70), NO_CYCLE, cycle(26), cycle(13.4)] * 15
    one, other = CycleTracker(), CycleTracker()
    for place, answer in enumerate(answers):
        if place == stop:
            other = CycleTracker.restore(json.loads(json.dumps(other.snapshot())))
        gain = 1.0 - 0.02 * place
        assert one.follow(place * 10_000, gain, 0.1) == other.follow(place * 10_000, gain, 0.1)
        assert one.update(place * 10_000, answer) == other.update(place * 10_000, answer)
        assert one.wants_evaluation == other.wants_evaluation
        assert one.wants_gain(place * 9_000) == other.wants_gain(place * 9_000)
    assert one.snapshot() == other.snapshot()
