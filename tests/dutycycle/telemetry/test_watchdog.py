"""Goal: what stalls is found, said and ended, and what merely waits is left alone."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from dutycycle.telemetry.watchdog import StallDetector, StallLimits, StallTimer
from tests.support.waiting import Clock, until, wait_until


class Ward:
    """A watched block with a probe that answers from a list, the last answer for ever."""

    def __init__(self, answers: list[str | None], *, orderly_s: float = 0.05) -> None:
        self.ended: list[str] = []
        self.left: list[int] = []
        self.answers = list(answers)
        limits = StallLimits(poll_s=0.005, orderly_s=orderly_s)
        self.detector = StallDetector(limits, leave=self.left.append)

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        async with self.detector.watching(self._probe, end=self.ended.append):
            yield

    def _probe(self) -> str | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_two_bad_answers_end_the_process() -> None:
    ward = Ward([None, "stuck"])
    async with ward.watched():
        await until(lambda: ward.left)
        await asyncio.sleep(0.1)
    assert (ward.ended, ward.left) == (["stuck"], [1]), "once"


async def test_one_bad_answer_does_not() -> None:
    ward = Ward([None, "hiccup", None, "hiccup", None])
    async with ward.watched():
        await until(lambda: len(ward.answers) == 1)
        await asyncio.sleep(0.05)
    assert (ward.ended, ward.left) == ([], [])


async def test_an_orderly_end_is_not_cut_short() -> None:
    ward = Ward(["stuck"], orderly_s=60)
    began = time.monotonic()
    async with ward.watched():
        await until(lambda: ward.ended)
    assert ward.left == []
    assert time.monotonic() - began < 30


async def test_a_probe_that_fails_ends_nothing() -> None:
    nothing: dict[str, str] = {}
    ward = Ward([None])
    async with ward.detector.watching(lambda: nothing["x"], end=ward.ended.append):
        await asyncio.sleep(0.1)
    assert (ward.ended, ward.left) == ([], [])


async def test_an_inner_block_takes_the_place_of_the_outer_one_while_it_lasts() -> None:
    beats: list[str] = []
    ward = Ward(["stuck"], orderly_s=60)
    async with ward.detector.watching(on_beat=lambda: beats.append("outer")):
        await until(lambda: beats)
        async with ward.watched():
            await until(lambda: ward.ended == ["stuck"])
        del beats[:]
        await until(lambda: beats)
    assert ward.left == [], "what ended with the inner block is over"


async def test_a_blocked_event_loop_is_said_and_then_ended(caplog: pytest.LogCaptureFixture) -> None:
    left: list[int] = []
    clock = Clock()
    limits = StallLimits(said_s=30, ended_s=180, poll_s=0.005, orderly_s=0.05)
    detector = StallDetector(limits, clock=clock, leave=left.append)
    async with detector.watching():
        assert detector.loop_stalled() is None
        clock.now_s += 31
        assert detector.loop_stalled() == "blocked for 31 s"
        assert left == []
        clock.now_s += 150
        wait_until(lambda: left, pause_s=0.005)  # the event loop is blocked by this
        assert left == [1]
        await until(lambda: detector.loop_stalled() is None)
    assert "the event loop is blocked for" in caplog.text
    assert detector.loop_stalled() is None, "nobody looks any more"


@pytest.mark.parametrize(("gap", "stalled"), [(3.0, False), (3.1, True)])
def test_a_stall_of_the_process_is_noticed_by_whoever_asks_first(gap: float, stalled: bool) -> None:
    clock = Clock()
    detector = StallDetector(clock=clock)
    detector.process_limit_s = 3.0
    clock.now_s = 100.0
    assert not detector.process_stalled()  # nobody has begun to beat
    detector.beat()
    clock.now_s += gap
    assert detector.process_stalled() is stalled
    detector.beat()
    assert detector.process_stalled() is stalled  # the beat after it does not hide it


def test_progress_stalls_when_nothing_changes() -> None:
    clock = Clock()
    progress = StallTimer(clock)
    found = []
    for now, seen in [(5, "a"), (9, "b"), (19, "b"), (19.5, None), (30, None), (31, "b")]:
        clock.now_s = now
        progress.observe(seen)
        clock.now_s += 0.5
        found.append(progress.stalled_s)
    assert found == [0.5, 0.5, 10.5, 0, 0, 0.5]


def test_a_limit_counts_from_the_first_beat_under_it() -> None:
    now = [0.0]
    detector = StallDetector(clock=lambda: now[0])
    detector.beat()
    now[0] += 1.9  # without a limit it beats every two seconds
    detector.process_limit_s = 1.2
    assert not detector.process_stalled()
    detector.beat()
    now[0] += 1.3
    assert detector.process_stalled()


async def test_a_stall_right_after_the_limit_is_known_is_noticed() -> None:
    clock = Clock()
    detector = StallDetector(StallLimits(poll_s=600), clock=clock)
    async with detector.watching():
        clock.now_s += 500
        detector.process_limit_s = 1.2
        assert not detector.process_stalled(), "a beat from before it does not count"

        def stalls() -> bool:
            clock.now_s += 1.3
            return detector.process_stalled()

        await until(stalls)
