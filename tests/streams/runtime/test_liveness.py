"""The thread that ends a stuck worker: what counts as sick, and what happens then."""

import logging
import threading
from collections.abc import Iterator

import pytest

from bus.faust.logs import hush
from bus.faust.offset_tracker import OffsetKind, OffsetTracker
from telemetry.events import Telemetry
from telemetry.liveness import Liveness, Patience, Pulse


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Ward:
    """A liveness thread with probes that answer from a list, the last answer for ever."""

    def __init__(self, answers: list[str | None], *, orderly_s: float = 0.05) -> None:
        self.sick: list[str] = []
        self.left: list[int] = []
        self.asked = threading.Event()
        self.ended = threading.Event()
        self._answers = iter(answers)
        self._last: str | None = None
        self.thread = Liveness([self._probe], self._on_sick, pulse=Pulse(1), leave=self._leave, poll_s=0.005,
                               orderly_s=orderly_s)  # fmt: skip
        self.thread.start()

    def _probe(self) -> str | None:
        try:
            self._last = next(self._answers)
        except StopIteration:
            self.asked.set()
        return self._last

    def _on_sick(self, reason: str) -> None:
        self.sick.append(reason)

    def _leave(self, status: int) -> None:
        self.left.append(status)
        self.ended.set()


def test_two_bad_answers_end_the_process() -> None:
    ward = Ward([None, "stuck"])
    assert ward.ended.wait(10)
    assert (ward.sick, ward.left) == (["stuck"], [1])


def test_one_bad_answer_does_not() -> None:
    ward = Ward([None, "hiccup", None, "hiccup", None])
    assert ward.asked.wait(10)
    ward.thread.stop()
    ward.thread.join()
    assert (ward.sick, ward.left) == ([], [])


def test_an_orderly_end_is_not_cut_short() -> None:
    ward = Ward(["stuck"], orderly_s=60)
    while not ward.sick:
        assert ward.thread.is_alive()
    ward.thread.stop()
    ward.thread.join(10)
    assert ward.left == []


@pytest.mark.parametrize(("gap", "stalled"), [(3.0, False), (3.1, True)])
def test_a_standstill_is_noticed_by_whoever_looks_first(gap: float, stalled: bool) -> None:
    clock = Clock()
    pulse = Pulse(3.0, clock)
    clock.now = 100.0
    assert not pulse.stalled()  # nobody has begun to beat
    pulse.beat()
    clock.now += gap
    assert pulse.stalled() is stalled
    pulse.beat()
    assert pulse.stalled() is stalled  # the beat after it does not hide it


def test_patience_ends_when_nothing_changes() -> None:
    clock, seen = Clock(), ["a"]
    patience = Patience(lambda: seen[0], 10.0, clock)
    for now, what, bad in [(5, "a", False), (9, "b", False), (19, "b", False), (19.5, "b", True)]:
        clock.now, seen[0] = now, what
        assert (patience() is not None) is bad


def test_patience_has_no_limit_while_all_is_well() -> None:
    clock = Clock()
    patience = Patience(lambda: None, 10.0, clock)
    clock.now = 1000.0
    assert patience() is None


def test_offsets_are_judged() -> None:
    tracker = OffsetTracker(5)
    cases = [(4, OffsetKind.REPEAT), (6, OffsetKind.AFTER_GAP), (5, OffsetKind.NEXT)]
    assert [tracker.classify(offset) for offset, _ in cases] == [seen for _, seen in cases]
    tracker.took(8)
    assert tracker.classify(8) is OffsetKind.REPEAT
    assert tracker.classify(9) is OffsetKind.NEXT


@pytest.fixture
def library_logs() -> Iterator[None]:
    logs = [logging.getLogger(name) for name in ("faust", "mode", "aiokafka", "bus", "streams")]
    before = [(log.level, log.propagate, log.handlers) for log in logs]
    yield
    for log, (level, propagate, handlers) in zip(logs, before, strict=True):
        log.setLevel(level)
        log.propagate, log.handlers = propagate, handlers


@pytest.mark.usefixtures("library_logs")
def test_library_errors_become_events(caplog: pytest.LogCaptureFixture) -> None:
    telemetry = Telemetry("test")
    hush(telemetry)
    log = logging.getLogger("aiokafka.client")
    log.info("Discovered coordinator")
    for _ in range(3):
        log.error("Unable connect\nto node %s", 1)
    log.error("does not fit %d %d", "x")
    assert telemetry.counts["library_said", ("aiokafka",)] == 4
    said = ["Unable connect to node 1", "does not fit %d %d"]  # each once
    assert caplog.messages == [f"library_said library=aiokafka: {one}" for one in said]
