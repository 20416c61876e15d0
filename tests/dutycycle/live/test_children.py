"""A child of ``up``: where it answers is told to those who want to know, and its restarts are counted."""

import asyncio
import logging
import signal
from pathlib import Path

import pytest

from dutycycle.live.children import Child
from dutycycle.process import NOT_BEGUN
from dutycycle.telemetry.serving import SERVING
from tests.support.processes.commands import environ
from tests.support.processes.figures import Process
from tests.support.waiting import wait_until


async def test_where_it_answers_and_how_often_it_was_restarted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "log"
    env = environ(broker="kafka://127.0.0.1:9", spool=str(tmp_path / "spool"), kubernetes="off")
    child = Child("collect", env, log)
    running = asyncio.create_task(child.run())
    try:
        with caplog.at_level(logging.INFO, logger="up"):
            first = await asyncio.to_thread(lambda: Process(wait_for(log, 1)))
            assert first.figures()["restarts"] == 0
            assert f"collect {SERVING}{first.address}" in caplog.text
            assert child.begun.is_set()
            assert not [line for line in child.warnings if SERVING in line], "the screen is kept tidy"
            assert child._process is not None
            child._process.kill()
            second = await asyncio.to_thread(lambda: Process(wait_for(log, 2)))
            assert second.figures()["restarts"] == 1
    finally:
        assert await child.stop() in (0, 1), "in order, without a broker"
        await running


async def test_a_full_disk_costs_the_log_alone() -> None:
    child = Child("nonsense", environ(), Path("/dev/full"))
    await ended(child)
    said = [line for line in child.warnings if "without its log" in line]
    assert said == ["nonsense goes on without its log: /dev/full: No space left on device"]
    assert child.status == 2, "wrong usage"


@pytest.mark.parametrize(
    ("name", "env"),
    [("nonsense", {"NAME": "not \0 possible"}), ("a line that is too long: " + "x" * 100_000, environ())],
    ids=["not_started", "not_read"],
)
async def test_whatever_fails_it_is_started_again(name: str, env: dict[str, str], tmp_path: Path) -> None:
    child = Child(name, env, tmp_path / "log")
    await ended(child)
    assert child.begun.is_set(), "who waits for it waits no longer"
    assert all(" could not be run (" in line for line in child.warnings)
    assert child.status == 1


async def ended(child: Child) -> None:
    """Let the child run until it is to be started again."""
    running = asyncio.create_task(child.run())
    await asyncio.to_thread(
        wait_until, lambda: child.failures > 0 or running.done(), lambda: f"{child.warnings}", 60
    )
    await child.stop()
    await running


def wait_for(log: Path, starts: int) -> Path:
    """Wait until the child has said so many times where it answers."""
    wait_until(lambda: log.exists() and log.read_text().count(SERVING) == starts, lambda: "a start")
    return log


async def test_what_failed_has_failed_until_another_attempt_begins(tmp_path: Path) -> None:
    records = "sqlite:////proc/no/records.db"
    child = Child("sink", environ(broker="kafka://127.0.0.1:9", records=records), tmp_path / "log")
    running = asyncio.create_task(child.run())

    def is_starting_again() -> bool:
        process = child._process
        return child.failures > 0 and process is not None and process.returncode is None

    await asyncio.to_thread(wait_until, is_starting_again, lambda: f"{child.warnings}", 60)
    await child.stop()
    await running
    assert child.status == 1
    assert child.reason.startswith("cannot keep peak records in /proc/no/records.db")
    assert any(child.reason in line for line in child.warnings)


async def test_a_start_that_is_cut_short_is_no_failure(tmp_path: Path) -> None:
    child = Child("collect", environ(broker="kafka://127.0.0.1:9"), tmp_path / "log")
    running = asyncio.create_task(child.run())
    while child._process is None:  # noqa: ASYNC110 - at once: on a busy machine a look later is after its start
        await asyncio.sleep(0)
    assert await child.stop() in (NOT_BEGUN, -signal.SIGTERM)
    await running
    assert (child.status, child.reason) == (None, "")
