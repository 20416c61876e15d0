"""The end of a service that leaves a thread behind."""

import os
import subprocess
import sys

HANGS = """
import asyncio, os, threading, time
from dutycycle.cli.service import run_service
from contract.settings.load import load

async def run(settings, telemetry, stop):
    loop = asyncio.get_running_loop()

    def late():
        while not loop.is_closed():
            time.sleep(0.01)
        loop.call_soon_threadsafe(print)

    threading.Thread(target=late).start()
    telemetry.status.hangs = {hangs}

run_service(run, "stream", load(os.environ))
"""


def ends(*, hangs: bool) -> tuple[int, str]:
    environ = os.environ | {"DUTYCYCLE_BROKER": "kafka://127.0.0.1:9", "DUTYCYCLE_LISTEN": "off"}
    done = subprocess.run(
        [sys.executable, "-c", HANGS.format(hangs=hangs)],
        capture_output=True, text=True, check=False, env=environ, timeout=60,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_thread_that_does_not_end_is_left_without_a_traceback() -> None:
    assert ends(hangs=True) == (0, "")


def test_the_loop_is_closed_where_nothing_hangs() -> None:
    assert "Event loop is closed" in ends(hangs=False)[1]
