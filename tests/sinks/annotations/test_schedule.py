"""When each object is written: a table of moments, with the clock moved by hand."""

import pytest

from dutycycle.contract.log import TopicPartition
from sinks.annotations.core.schedule import (
    EVALUATE_SHARE,
    REFRESH,
    REFUSED,
    URGENT_S,
    ChangeThreshold,
    WritePlan,
)
from sinks.annotations.core.targets import Target
from sinks.base import PendingOffsets
from sinks.dispatcher import OffsetProgress

INTERVAL = 30.0
PLACE = TopicPartition("pod-peaks", 0)


def pod(name: str) -> Target:
    """A pod by its name."""
    return Target("pod", "v1", "Pod", name, "default", name)


A, B, C = pod("a"), pod("b"), pod("c")


@pytest.fixture
def plan() -> WritePlan:
    return WritePlan(INTERVAL, most=3)


def touch(plan: WritePlan, target: Target, offset: int, now: float, *, final: bool | None = False) -> None:
    """One record."""
    assert plan.touch(target, PLACE, offset, final=final, now=now) is None


def due(plan: WritePlan, now: float) -> Target | None:
    """Return the object that is taken to be written."""
    write = plan.next_due(now)
    return None if write is None else write.target


def threshold(plan: WritePlan, now: float) -> ChangeThreshold:
    """Return what has to have changed for the write that is due."""
    write = plan.next_due(now)
    assert write is not None
    assert write.target == A
    return write.threshold


def test_the_first_is_due_at_once_and_the_next_after_the_interval(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    assert due(plan, 100) == A
    assert due(plan, 100) is None
    plan.written(A, 101)
    touch(plan, A, 1, now=102)
    assert due(plan, 130.9) is None
    assert plan.wait_s(102) == 29
    assert due(plan, 131) == A


def test_many_records_are_one_write(plan: WritePlan) -> None:
    for offset in range(10):
        touch(plan, A, offset, now=100)
    assert due(plan, 100) == A
    assert due(plan, 100) is None
    plan.written(A, 100)
    assert plan.pending_offsets().empty
    assert plan.wait_s(100) is None


def test_what_comes_during_a_write_is_not_lost(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    due(plan, 100)
    touch(plan, A, 1, now=100)
    plan.written(A, 101)
    assert plan.pending_offsets().lowest(PLACE) == 1
    assert due(plan, 130) is None
    assert due(plan, 131) == A


def test_finals_go_first_and_do_not_wait(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    assert due(plan, 100) == A
    plan.written(A, 100)
    touch(plan, B, 1, now=101)
    touch(plan, A, 2, now=102, final=True)
    assert threshold(plan, 102) is ChangeThreshold.TIME_STAMP
    assert [due(plan, 102), due(plan, 102)] == [B, None]
    plan.written(A, 102)
    assert plan.is_over(A)


def test_what_knows_nothing_of_the_end_changes_nothing_of_it(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100, final=True)
    touch(plan, A, 1, now=100, final=None)
    assert threshold(plan, 100) is ChangeThreshold.TIME_STAMP
    touch(plan, A, 2, now=100, final=None)
    plan.written(A, 101)
    assert due(plan, 101) == A
    plan.written(A, 101)
    assert plan.is_over(A)
    touch(plan, B, 3, now=101, final=None)
    assert due(plan, 101) == B
    plan.written(B, 101)
    assert not plan.is_over(B)


def test_a_final_that_comes_during_a_write_is_due_after_it(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    due(plan, 100)
    touch(plan, A, 1, now=100, final=True)
    assert due(plan, 100) is None
    plan.written(A, 101)
    assert not plan.is_over(A)
    assert due(plan, 101) == A
    plan.written(A, 101)
    assert plan.is_over(A)


def urge(plan: WritePlan, offset: int, now: float) -> None:
    assert plan.touch(A, PLACE, offset, final=None, now=now, urgent=True) is None


def test_what_is_urgent_waits_for_seconds_and_not_for_the_interval(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    assert due(plan, 100) == A
    plan.written(A, 100, {"figure"})
    touch(plan, A, 1, now=101)
    urge(plan, 2, 101)
    assert due(plan, 100 + URGENT_S - 0.1) is None
    assert threshold(plan, 100 + URGENT_S) is ChangeThreshold.ANY_FIGURE, "whatever else is damped"
    urge(plan, 3, 103)
    plan.written(A, 103)
    assert due(plan, 103) is None
    assert due(plan, 103 + URGENT_S) == A, "it came during the write"
    plan.written(A, 106)
    touch(plan, A, 4, now=107)
    assert due(plan, 106 + INTERVAL - 0.1) is None, "the next one is as any other"
    assert threshold(plan, 106 + INTERVAL) is ChangeThreshold.MUCH


def test_what_is_urgent_waits_where_a_write_has_failed_and_stays_urgent(plan: WritePlan) -> None:
    urge(plan, 0, 100)
    assert due(plan, 100) == A
    plan.failed(A, 160)
    urge(plan, 1, 101)
    assert due(plan, 159) is None
    assert threshold(plan, 160) is ChangeThreshold.ANY_FIGURE


def test_a_failed_write_holds_its_records_until_it_succeeds(plan: WritePlan) -> None:
    touch(plan, A, 7, now=100)
    due(plan, 100)
    assert plan.pending_offsets().lowest(PLACE) == 7
    touch(plan, A, 9, now=100)
    plan.failed(A, not_before=105)
    assert plan.pending_offsets().lowest(PLACE) == 7
    assert due(plan, 104) is None
    assert due(plan, 105) == A
    plan.written(A, 105)
    assert plan.pending_offsets().empty


def test_skipped_counts_as_seen_to_and_is_looked_at_again_soon(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    due(plan, 100)
    plan.skipped(A, 100)
    assert plan.pending_offsets().empty
    touch(plan, A, 1, now=100)
    assert plan.wait_s(100) == INTERVAL / EVALUATE_SHARE


def test_long_after_the_last_write_everything_is_enough_for_one(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    assert threshold(plan, 100) is ChangeThreshold.ANY_FIGURE
    plan.written(A, 100)
    for intervals, expected in (
        (1, ChangeThreshold.MUCH), (REFRESH - 1, ChangeThreshold.MUCH), (REFRESH, ChangeThreshold.TIME_STAMP),
    ):  # fmt: skip
        now = 100 + intervals * INTERVAL
        touch(plan, A, intervals, now)
        assert threshold(plan, now) is expected
        plan.skipped(A, now)


def test_what_was_worth_no_write_after_a_restart_counts_as_written(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    due(plan, 100)
    for now, expected in (
        (100 + INTERVAL, ChangeThreshold.MUCH), (100 + REFRESH * INTERVAL, ChangeThreshold.TIME_STAMP),
    ):  # fmt: skip
        plan.skipped(A, 100)
        touch(plan, A, 1, now=now)
        assert threshold(plan, now) is expected


def test_a_refused_object_waits_longer(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    due(plan, 100)
    plan.refused(A, 100)
    assert plan.pending_offsets().empty
    touch(plan, A, 1, now=101)
    assert plan.wait_s(100) == REFUSED * INTERVAL


def test_a_hold_stops_everything(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100, final=True)
    plan.hold(110)
    plan.hold(105)
    assert due(plan, 109) is None
    assert plan.wait_s(100) == 10
    assert due(plan, 110) == A


def test_past_the_bound_the_oldest_is_given_up(plan: WritePlan) -> None:
    for offset, target in enumerate((A, B, C, A)):
        touch(plan, target, offset, now=100)
    shed = plan.touch(pod("d"), PLACE, 9, final=False, now=100)
    assert shed is not None
    assert (shed.target, shed.lost) == (B, True)
    taken = [due(plan, 100) for _ in range(4)]
    assert set(taken) == {A, C, pod("d"), None}


def test_past_the_bound_one_that_waits_for_nothing_goes_first(plan: WritePlan) -> None:
    for offset, target in enumerate((A, B, C)):
        touch(plan, target, offset, now=100)
    assert due(plan, 100) == A
    assert due(plan, 100) == B
    plan.written(B, 100)
    shed = plan.touch(pod("d"), PLACE, 9, final=False, now=100)
    assert shed is not None
    assert (shed.target, shed.lost) == (B, False)


def test_past_the_bound_finals_go_last(plan: WritePlan) -> None:
    for offset, target in enumerate((A, B, C)):
        touch(plan, target, offset, now=100, final=target is not B)
    shed = [plan.touch(pod(name), PLACE, 9 + n, final=name != "e", now=100) for n, name in enumerate("def")]
    assert [(one.target, one.lost, one.final) for one in shed if one] == [
        (B, True, False), (pod("e"), True, False), (A, True, True),
    ]  # fmt: skip
    assert {due(plan, 100) for _ in range(4)} == {C, pod("d"), pod("f"), None}


def test_what_failed_or_is_in_flight_is_not_taken_for_idle(plan: WritePlan) -> None:
    for offset, target in enumerate((A, B, C)):
        touch(plan, target, offset, now=100)
    assert [due(plan, 100), due(plan, 100), due(plan, 100)] == [A, B, C]
    plan.failed(A, 200)
    plan.written(C, 100)
    shed = plan.touch(pod("d"), PLACE, 9, final=False, now=100)
    assert shed is not None
    assert (shed.target, shed.lost) == (C, False)
    assert plan.pending_offsets().lowest(PLACE) == 0


def test_what_was_dropped_in_flight_may_land(plan: WritePlan) -> None:
    touch(plan, A, 0, now=100)
    due(plan, 100)
    plan.drop(A)
    for land in (plan.written, plan.skipped, plan.refused):
        land(A, 101)
    plan.failed(A, 101)
    assert plan.pending_offsets().empty
    touch(plan, A, 1, now=101)
    plan.clear()
    assert due(plan, 200) is None


def held(*pairs: tuple[TopicPartition, int]) -> PendingOffsets:
    """Records that wait."""
    found = PendingOffsets()
    for place, offset in pairs:
        found.add(place, offset)
    return found


def test_progress_stops_below_what_is_held_and_says_news_once() -> None:
    progress = OffsetProgress()
    other = TopicPartition("job-peaks", 3)
    for offset in range(5, 9):
        progress.note_taken(PLACE, offset)
    progress.note_taken(other, 0)
    assert progress.done(held((PLACE, 7), (PLACE, 6), (other, 0))) == [(PLACE, 5)]
    assert progress.done(held((PLACE, 6), (other, 0))) == []
    assert progress.done(held()) == [(PLACE, 8), (other, 0)]
    assert progress.done(held()) == []
    progress.forget()
    assert progress.done(held()) == []
