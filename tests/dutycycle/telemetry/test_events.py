"""Goal: every event is counted, a repeated one is logged once per quiet period, a condition when it turns."""

import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from dutycycle.telemetry import events
from dutycycle.telemetry.events import (
    BROKER_UNREACHABLE,
    COLLECTOR_FAILED,
    TICK_LATE,
    WRITE_RETRIED,
    Event,
    Telemetry,
)
from tests.support.waiting import Clock


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, logger="dutycycle"):
        yield


def test_an_event_is_one_line_and_one_count(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("collect")
    telemetry.emit(COLLECTOR_FAILED, "no driver", collector="nvml", reason="DriverNotLoaded")
    assert caplog.record_tuples == [
        (
            "dutycycle.collect",
            logging.WARNING,
            "collector_failed collector=nvml reason=DriverNotLoaded: no driver",
        )
    ]
    assert telemetry.counts == {("collector_failed", ("nvml", "DriverNotLoaded")): 1}


def test_a_repeated_event_is_counted_and_said_once_per_quiet_period(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(100.0)
    telemetry = Telemetry("collect", quiet_s=60, clock=clock)
    for clock.now_s in (100.0, 101.0, 159.9):
        telemetry.emit(TICK_LATE)
    assert caplog.messages == ["tick_late"]
    clock.now_s = 160.0
    telemetry.emit(TICK_LATE, count=5)
    assert caplog.messages == ["tick_late", "tick_late (7 times)"]
    assert telemetry.count(TICK_LATE) == 8


def test_labels_have_quiet_periods_of_their_own(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("collect", clock=Clock(100.0))
    for collector in ("nvml", "cgroup", "nvml"):
        telemetry.emit(COLLECTOR_FAILED, collector=collector, reason="r")
    assert len(caplog.messages) == 2
    assert telemetry.count(COLLECTOR_FAILED) == 3
    assert telemetry.counts["collector_failed", ("nvml", "r")] == 2


def test_subjects_with_the_same_labels_are_each_said_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock(100.0)
    telemetry = Telemetry("collect", clock=clock)
    for about in ("patch nodes", "patch pods", "patch nodes", "patch pods"):
        telemetry.emit(COLLECTOR_FAILED, f"cannot {about}", about=about, collector="c", reason="403")
    assert [one.rpartition(": ")[2] for one in caplog.messages] == ["cannot patch nodes", "cannot patch pods"]
    assert telemetry.counts == {("collector_failed", ("c", "403")): 4}
    clock.now_s += 60
    telemetry.emit(COLLECTOR_FAILED, "cannot patch pods", about="patch pods", collector="c", reason="403")
    assert caplog.messages[-1].endswith("cannot patch pods (2 times)")


def test_subjects_without_end_are_one(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("collect", clock=Clock(100.0))
    for number in range(1000):
        telemetry.emit(TICK_LATE, about=str(number))
    assert len(caplog.messages) == 101
    telemetry.emit(TICK_LATE, about="5")
    assert len(caplog.messages) == 101
    assert telemetry.count(TICK_LATE) == 1001


def test_a_label_that_the_event_has_must_be_given() -> None:
    with pytest.raises(KeyError, match="reason"):
        Telemetry("collect").emit(COLLECTOR_FAILED, collector="nvml")


def test_a_condition_is_said_when_it_begins_and_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("collect")
    telemetry.raise_condition(BROKER_UNREACHABLE, "kafka", "connection refused")
    telemetry.raise_condition(BROKER_UNREACHABLE, "kafka", "timed out")
    assert telemetry.conditions == {("broker_unreachable", "kafka"): "timed out"}
    telemetry.clear_condition(BROKER_UNREACHABLE, "kafka", "back")
    telemetry.clear_condition(BROKER_UNREACHABLE, "kafka", "back")
    assert caplog.messages == [
        "broker_unreachable kafka: connection refused",
        "broker_unreachable kafka: back",
    ]
    assert telemetry.conditions == {}
    assert telemetry.count(BROKER_UNREACHABLE) == 1


def test_a_condition_that_comes_back_is_said_and_counted_again(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("collect")
    for _ in range(2):
        telemetry.raise_condition(BROKER_UNREACHABLE, "kafka", "refused")
        telemetry.clear_condition(BROKER_UNREACHABLE, "kafka")
    assert len(caplog.messages) == 4
    assert telemetry.count(BROKER_UNREACHABLE) == 2


def test_conditions_of_other_names_are_apart() -> None:
    telemetry = Telemetry("collect")
    telemetry.raise_condition(BROKER_UNREACHABLE, "one", "x")
    telemetry.raise_condition(BROKER_UNREACHABLE, "two", "y")
    telemetry.clear_condition(BROKER_UNREACHABLE, "one")
    assert telemetry.conditions == {("broker_unreachable", "two"): "y"}


@pytest.mark.slow
def test_no_count_is_lost_between_threads() -> None:
    """A new label is the critical moment: the first count of each is put in, not added to."""
    event = Event("e", logging.DEBUG, "for the test", ("label",))
    telemetry = Telemetry("collect", clock=Clock(100.0))
    together = threading.Barrier(4)

    def count() -> None:
        together.wait()
        for number in range(2000):
            telemetry.emit(event, label=str(number))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-7)
    try:
        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert telemetry.count(event) == 8000


def test_a_condition_is_counted_under_the_labels_of_its_event() -> None:
    telemetry = Telemetry("collect")
    telemetry.raise_condition(COLLECTOR_FAILED, "nvml", "gone", collector="nvml", reason="error")
    telemetry.raise_condition(BROKER_UNREACHABLE, "refused", "x")
    tally = telemetry.tally()
    assert tally[COLLECTOR_FAILED] == {("nvml", "error"): 1}
    assert tally[BROKER_UNREACHABLE] == {("refused",): 1}, "a single label has the condition's name"
    with pytest.raises(KeyError, match="collector"):
        telemetry.raise_condition(COLLECTOR_FAILED, "cgroup", "gone", reason="error")


def test_what_is_expected_is_counted_from_zero() -> None:
    telemetry = Telemetry("collect")
    telemetry.expect(events, collector=iter(["nvml"]), topic=["pods"])
    tally = telemetry.tally()
    assert tally[TICK_LATE] == {(): 0}
    assert tally[COLLECTOR_FAILED] == {
        ("nvml", reason): 0 for reason in ("error", "no_answer", "slow", "closing")
    }
    assert tally[BROKER_UNREACHABLE] == {}, "its reasons are not known beforehand"
    assert WRITE_RETRIED not in tally, "another process counts it"
    telemetry.emit(TICK_LATE)
    telemetry.expect(events)
    assert telemetry.tally()[TICK_LATE] == {(): 1}, "what was counted stays"
