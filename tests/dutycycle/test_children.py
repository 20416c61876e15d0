"""A child of ``up``: where it answers is told to those who want to know, and its restarts are counted."""

import asyncio
import logging
from pathlib import Path

import pytest

from dutycycle.children import Child
from health.serving import SERVING
from tests.e2e.commands import environ, wait_until
from tests.e2e.figures import Process


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


def wait_for(log: Path, starts: int) -> Path:
    """Wait until the child has said so many times where it answers."""
    wait_until(lambda: log.exists() and log.read_text().count(SERVING) == starts, lambda: "a start", 60)
    return log
