"""A server rests while no test uses it, and runs whenever one does."""

from collections.abc import Iterator

import pytest

from tests.support.servers.resting import IDLE_S, Servers


class Program:
    """A server that says whether it runs."""

    def __init__(self) -> None:
        self.runs = True

    def ensure_running(self) -> None:
        self.runs = True

    def rest(self) -> None:
        self.runs = False

    def discard(self) -> None:
        self.runs = False


class Clock:
    """A clock that is put forward by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def served(clock: Clock) -> Iterator[tuple[Servers, Program]]:
    servers, program = Servers(clock), Program()
    servers.add("kafka_server", program)
    yield servers, program
    servers.remove("kafka_server")
    clock.now_s += 2 * IDLE_S
    program.ensure_running()
    servers.before(())
    assert program.runs, "what is removed is left alone"


def test_it_rests_when_no_test_has_used_it_for_a_while(clock: Clock, served: tuple[Servers, Program]) -> None:
    servers, program = served
    clock.now_s += IDLE_S
    servers.before({"kube_server"})
    assert program.runs
    clock.now_s += 1
    servers.before({"kube_server"})
    assert not program.runs


def test_it_runs_before_a_test_that_uses_it(clock: Clock, served: tuple[Servers, Program]) -> None:
    servers, program = served
    program.rest()
    clock.now_s += 2 * IDLE_S
    servers.before({"kafka_server", "tmp_path"})
    assert program.runs
    clock.now_s += IDLE_S
    servers.before(())
    assert program.runs


def test_a_use_that_is_told_counts(clock: Clock, served: tuple[Servers, Program]) -> None:
    servers, program = served
    clock.now_s += IDLE_S
    servers.used("kafka_server")
    servers.used("one that somebody else runs")
    clock.now_s += IDLE_S
    servers.before(())
    assert program.runs
