"""A signal at any moment of a service's start: it ends soon, in order and silently."""

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.serving import serving
from sinks.serve.roles import ROLES
from tests.support.kafka import all_topics
from tests.support.processes.commands import ANEW, environ, running

SERVICES = {
    "collect": "collectors.service", "stream": "streams.service", "sink": "sinks.service",
    "metrics": "sinks.serve.service", "extender": "sinks.serve.service",
}  # fmt: skip
COMMANDS = (["collect"], ["stream"], ["sink"], ["sink", "--metrics"], ["extender"], ["top"])
SOON_S = 60.0
"""On a machine that has much else to do; a tenth of a second on another."""
STARTED_S = 0.8
"""A service has connected, and a worker waits for its group by then."""
LONG_STARTED_S = 5.0


@pytest.fixture
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(all_topics(2)) as started:
        yield started


def given(url: str, folder: Path) -> dict[str, str]:
    return {
        "broker": url, "partitions": "2", "records": f"sqlite:///{folder}/records.db", "kubernetes": "off",
        "spool": str(folder / "spool"), "serve_listen": "127.0.0.1:0", "steps_socket": "off",
    }  # fmt: skip


async def stopped(name: str, settings: Settings, after_s: float) -> float:
    """Run a service, and ask it to stop after so many seconds; how long that took, seconds."""
    telemetry, stop, asked_s = Telemetry(name), asyncio.Event(), [0.0]

    def ask() -> None:
        asked_s[0] = time.monotonic()
        stop.set()

    asyncio.get_running_loop().call_later(after_s, ask)
    async with serving(settings, name, telemetry):
        run = import_module(SERVICES[name]).run
        await (run([name], settings, telemetry, stop) if name in ROLES else run(settings, telemetry, stop))
    assert not telemetry.status.hangs
    return time.monotonic() - asked_s[0]


def check_moments(
    name: str, settings: Settings, moments: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    others = set(threading.enumerate())
    for moment in moments:
        took_s = asyncio.run(stopped(name, settings, moment))
        left = [thread for thread in threading.enumerate() if not thread.daemon and thread not in others]
        for thread in left:
            thread.join(SOON_S)
        left = [thread for thread in left if thread.is_alive()]
        errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert (left, errors) == ([], []), f"after {moment:g} s"
        assert took_s < SOON_S, f"after {moment:g} s"


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_that_is_stopped_while_it_starts_ends_silently(
    name: str, broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load(environ(**given(broker.url, tmp_path), listen="off"))
    check_moments(name, settings, [STARTED_S * number / 4 for number in range(4)], caplog)


@pytest.mark.soak
@pytest.mark.parametrize("name", SERVICES)
def test_a_hundred_moments(
    name: str, broker: EmbeddedBroker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = load(environ(**given(broker.url, tmp_path), listen="off"))
    check_moments(name, settings, [LONG_STARTED_S * number / 100 for number in range(100)], caplog)


def check_process(
    arguments: list[str], number: signal.Signals, env: dict[str, str], moment: float, folder: Path
) -> None:
    log = folder / "log"
    with running(*arguments, env=env, log=log, number=number, start=ANEW):
        time.sleep(moment)
    said = log.read_text()
    assert "Traceback" not in said
    assert " ERROR " not in said


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_command_that_gets_a_signal_while_it_starts_ends_with_0(
    arguments: list[str], broker: EmbeddedBroker, tmp_path: Path
) -> None:
    for moment, number in ((0.0, signal.SIGTERM), (1.0, signal.SIGINT)):
        check_process(arguments, number, environ(**given(broker.url, tmp_path)), moment, tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("arguments", [*COMMANDS, ["up"]], ids=" ".join)
def test_a_hundred_moments_of_a_command(arguments: list[str], broker: EmbeddedBroker, tmp_path: Path) -> None:
    env = environ(**given(broker.url, tmp_path))
    for moment in range(100):
        number = (signal.SIGTERM, signal.SIGINT)[moment % 2]
        check_process(arguments, number, env, LONG_STARTED_S * moment / 100, tmp_path)
