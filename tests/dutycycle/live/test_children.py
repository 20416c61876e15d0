"""A child of ``up``: where it answers is told to those who want to know, and its restarts are counted."""

import asyncio
import logging
from pathlib import Path

import pytest

from dutycycle.live.children import Child
from telemetry.serving import SERVING
from tests.support.processes.commands import environ, wait_until
from tests.support.processes.figures import Process


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
            assert not [line for line in child.warnings if SERVING in line], "the screen is kept tidy"
            assert child._process is not None
            child._process.kill()
            second = await asyncio.to_thread(lambda: Process(wait_for(log, 2)))
            assert second.figures()["restarts"] == 1
    finally:
        assert await child.stop() == 0
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
    wait_until(lambda: log.exists() and log.read_text().count(SERVING) == starts, lambda: "a start", 60)
    return log
