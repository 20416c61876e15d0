"""The end of a service: one that leaves a thread behind, and a child of ``up`` that misses what it needs."""

import argparse
import os
import subprocess
import sys

import pytest

from dutycycle.cli.services import sink
from dutycycle.contract.settings.load import load
from dutycycle.process import NOT_BEGUN, PARENT_VARIABLE

HANGS = """
import asyncio, os, threading, time
from dutycycle.cli.service import run_service
from dutycycle.contract.settings.load import load

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
        capture_output=True, text=True, check=False, env=environ, timeout=240,
    )  # fmt: skip
    return done.returncode, done.stderr


def test_a_thread_that_does_not_end_is_left_without_a_traceback() -> None:
    assert ends(hangs=True) == (0, "")


def test_the_loop_is_closed_where_nothing_hangs() -> None:
    assert "Event loop is closed" in ends(hangs=False)[1]


ENDS = """
import os
from dutycycle.cli.service import run_service
from dutycycle.contract.settings.load import load
from sinks.events import SINK_AWAY
from dutycycle.telemetry.events import BROKER_UNREACHABLE, GPUS_UNAVAILABLE

async def run(settings, telemetry, stop):
    telemetry.status.waiting = None
    {does}

raise SystemExit(run_service(run, "sink", load(os.environ)))
"""
BROKER = 'telemetry.raise_condition(BROKER_UNREACHABLE, "refused", "x; trying again")'
DATABASE = 'telemetry.raise_condition(SINK_AWAY, "records", "no database; check that it runs; trying again")'
ENDINGS = [
    ("pass", 0, ""),
    (
        BROKER,
        1,
        "the broker is away: DUTYCYCLE_BROKER=kafka://127.0.0.1:9: start it, or give another --broker",
    ),
    (DATABASE, 1, "no database; check that it runs"),
    (f"{DATABASE}; telemetry.status.hangs = True", 1, "no database; check that it runs"),
    (f'{DATABASE}; telemetry.clear_condition(SINK_AWAY, "records")', 0, ""),
    ('telemetry.raise_condition(GPUS_UNAVAILABLE, "library_not_found", "no driver")', 0, ""),
    ('telemetry.status.waiting = "waiting for the database"', NOT_BEGUN, ""),
]


@pytest.mark.parametrize(("does", "status", "said"), ENDINGS)
def test_how_a_child_of_up_ends_and_a_service_of_its_own(does: str, status: int, said: str) -> None:
    """A service of its own goes on after the next start: for it, it is a good end."""
    with_parent = {PARENT_VARIABLE: str(os.getpid())}
    for environ, expected, words in ((with_parent, status, said), ({}, 0, "")):
        environ |= {"DUTYCYCLE_BROKER": "kafka://127.0.0.1:9", "DUTYCYCLE_LISTEN": "off"}
        done = subprocess.run(
            [sys.executable, "-c", ENDS.format(does=does)],
            capture_output=True, text=True, check=False, env=os.environ | environ, timeout=240,
        )  # fmt: skip
        lines = [line for line in done.stderr.splitlines() if line.startswith("dutycycle: ")]
        assert (done.returncode, lines) == (expected, [f"dutycycle: {words}"] if words else []), done.stderr


COLLECTS = """
import gc
from dutycycle.contract.settings.groups import Settings
from dutycycle.cli.services import stream

stream.run_service = lambda *_: print(gc.isenabled(), gc.get_freeze_count() > 0, gc.get_threshold())
stream.run(None, Settings())
"""


def test_a_stream_worker_seldom_goes_over_all_its_states_for_garbage() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COLLECTS], capture_output=True, text=True, check=True, timeout=240
    )
    assert done.stdout == "True True (5000, 10, 140)\n"


@pytest.mark.parametrize(
    ("environ", "given", "said"),
    [
        ({}, {}, "dutycycle: no --records: peak records go to /state/dutycycle/records.db\n"),
        ({}, {"records": "sqlite:///x.db"}, ""),
        ({PARENT_VARIABLE: "1"}, {}, ""),
    ],
    ids=["default", "given", "of up"],
)
def test_a_sink_says_where_its_records_go_if_nobody_did(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    environ: dict[str, str],
    given: dict[str, str],
    said: str,
) -> None:
    monkeypatch.setattr("dutycycle.cli.services.sink.run_service", lambda *_: 0)
    for name, value in {"XDG_STATE_HOME": "/state", **environ}.items():
        monkeypatch.setenv(name, value)
    settings = load({}, {"broker": "kafka://127.0.0.1:9", **given})
    assert sink.run(argparse.Namespace(metrics=False), settings) == 0
    assert capsys.readouterr().err == said
