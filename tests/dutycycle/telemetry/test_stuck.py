"""Goal: a process that stalls says so, and ends by itself with a status that has it started anew."""

import sys
from pathlib import Path

from tests.support.processes.commands import environ, mortal
from tests.support.processes.figures import Process
from tests.support.waiting import wait_until

PROGRAM = """
import asyncio, time
from dutycycle.cli import main, service
from dutycycle.telemetry.watchdog import StallLimits
from dutycycle.contract.settings.load import load
import os

async def run(settings, telemetry, stop):
    telemetry.status.waiting = None
    await asyncio.sleep(3)
    time.sleep(600)

main.set_up_logging(verbose=False)
service.run_service(run, "collect", load(os.environ), StallLimits(said_s=2, ended_s=8))
"""


def test_an_event_loop_that_is_blocked_for_good(tmp_path: Path) -> None:
    log = tmp_path / "log"
    program = [sys.executable, "-c", PROGRAM]
    with mortal(env=environ(broker="kafka://127.0.0.1:9"), log=log, start=program) as process:
        found = Process(log)
        wait_until(lambda: found.readyz()[0] == 200, log.read_text)
        wait_until(lambda: found.healthz()[0] == 503, log.read_text)
        assert found.healthz()[1].startswith("event loop: blocked for ")
        assert process.wait(240) == 1
    assert "the event loop is blocked for" in log.read_text()
