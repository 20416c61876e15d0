"""Goal: on a terminal the share, the rate and the time left, from the third second on; elsewhere nothing."""

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cluster_trace import Shape, records
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.progress import Progress
from tests.support.data.traces import write_trace
from tests.support.processes.terminal import on_a_terminal
from tests.support.waiting import Clock


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Lines:
    """A thousand lines of ten bytes, one each hundredth of a second."""

    def __init__(self, clock: Clock, size: int | None = 10_000) -> None:
        self.size, self._clock, self._at = size, clock, 0

    def position(self) -> int:
        return self._at

    def __iter__(self) -> Iterator[int]:
        for number in range(1000):
            self._clock.now_s += 0.01
            self._at += 10
            yield number


def shown(out: io.StringIO) -> list[str]:
    return [one for one in out.getvalue().replace("\x1b[K", "").split("\r") if one]


def tracked(out: io.StringIO, size: int | None = 10_000, *, quiet: bool = False) -> list[str]:
    clock = Clock(100.0)
    with Progress("lines", quiet=quiet, out=out, clock=clock) as progress:
        assert sum(1 for _ in progress.track(Lines(clock, size))) == 1000
    return shown(out)


def test_what_is_gone_through() -> None:
    texts = tracked(Terminal())
    assert texts[0] == "[######------------------------]  20 % 200 lines, 100/s, 8 s left"
    assert texts[20] == "[##################------------]  60 % 600 lines, 100/s, 4 s left"


def test_what_has_no_known_end() -> None:
    assert tracked(Terminal(), size=None)[0] == "200 lines, 100/s"


@pytest.mark.parametrize(("out", "quiet"), [(io.StringIO(), False), (Terminal(), True)])
def test_nobody_looks(out: io.StringIO, quiet: bool) -> None:
    assert tracked(out, quiet=quiet) == []


@pytest.mark.parametrize(("passed_s", "left"), [(3, "7 s left"), (300, "12 min left"), (7200, "4.7 h left")])
def test_time_left_of_what_goes_on_after_a_break(passed_s: float, left: str) -> None:
    """The first tenth was there before: it says nothing of how fast this is."""
    out, clock = Terminal(), Clock(100.0)
    progress = Progress("records", 1000, out=out, clock=clock)
    progress.show(100, 5)
    clock.now_s += passed_s
    progress.show(370, 305, "up to noon")
    rate = 300 / passed_s
    assert shown(out) == [
        f"[###########-------------------]  37 % up to noon, 305 records, {rate:.0f}/s, {left}"
    ]


def test_a_line_that_stays_takes_the_place_of_what_is_shown() -> None:
    out, clock = Terminal(), Clock(100.0)
    progress = Progress("lines", out=out, clock=clock)
    clock.now_s += 3
    progress.show(1, 1)
    progress.print_line("a bad line")
    assert out.getvalue() == "\r1 lines, 0/s\x1b[K\r\x1b[Ka bad line\n"


def test_a_command_on_a_terminal_and_in_a_pipe(tmp_path: Path) -> None:
    """At its pace the trace takes four seconds."""
    trace = write_trace(tmp_path / "t.jsonl", records(Shape(nodes=1, gpus=1, seconds=40)))
    with EmbeddedBroker({f"dutycycle.{name}": 8 for name in SAMPLE_TOPICS}) as broker:
        command = [
            sys.executable, "-m", "dutycycle", "replay", str(trace), "--broker", broker.url, "--speed", "10",
        ]  # fmt: skip
        said = on_a_terminal(command, Path.cwd())
        piped = subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
        quiet = on_a_terminal([*command, "--quiet"], Path.cwd())
    assert " samples, " in said
    assert " s left" in said
    assert said.splitlines()[-1].endswith("1 pods"), "the line is clean for what comes after it"
    assert [" left" in one for one in (piped.stderr, quiet)] == [False, False]
