"""Waiting for a broker: what is said, what is tried again, what is not."""

import asyncio
import socket
from collections.abc import Awaitable, Callable

import pytest

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.kafka.clients import probe
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.errors import BrokerRefusedError, BrokerUnreachableError
from dutycycle.kafka.reachability import Reachability, StoppedError, retry_until_reachable, run_until
from dutycycle.telemetry.events import BROKER_UNREACHABLE, Telemetry

SETTINGS = load_settings({"DUTYCYCLE_BROKER": "kafka://k:9092", "DUTYCYCLE_NODE": "a"})


def failing(*errors: Exception) -> Callable[[], Awaitable[None]]:
    """An attempt that raises ``errors`` in turn, then succeeds."""
    waiting = list(errors)

    async def attempt() -> None:
        if waiting:
            raise waiting.pop(0)

    return attempt


async def test_says_it_once_and_tries_again_until_it_answers(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    away = BrokerUnreachableError("refused", "k:9092: nothing listens there")
    telemetry = Telemetry("test")
    await retry_until_reachable(
        failing(away, away, away), Reachability(SETTINGS, telemetry, Backoff(1, 8, spread=0)), sleep=sleep
    )
    assert slept == [1, 2, 4]
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 2
    assert "k:9092: nothing listens there (DUTYCYCLE_BROKER=kafka://k:9092); trying again" in said[0]
    assert "k:9092 answers" in said[1]
    assert telemetry.count(BROKER_UNREACHABLE) == 1


async def test_a_refusal_is_not_tried_again() -> None:
    refused = BrokerRefusedError("authentication", "k:9092: user name or password is wrong")
    with pytest.raises(BrokerRefusedError, match="password is wrong"):
        await retry_until_reachable(failing(refused), Reachability(SETTINGS, Telemetry("test")))


class ConnectedError(Exception):
    """Of a connection that cannot be given back."""


@pytest.mark.parametrize(
    ("at_the_end", "raised"),
    [
        (None, StoppedError),
        (BrokerUnreachableError("connection", "gone meanwhile"), StoppedError),
        (ConnectedError(), ConnectedError),
    ],
)
async def test_what_is_stopped_has_ended_and_holds_nothing(
    at_the_end: Exception | None, raised: type[Exception]
) -> None:
    stop, holds = asyncio.Event(), []

    async def work() -> None:
        holds.append("a connection")
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            holds.clear()
            if at_the_end is not None:
                raise at_the_end

    with pytest.raises(raised):
        await run_until(stop, work())
    assert holds == []


async def test_what_is_done_when_the_stop_comes_is_done() -> None:
    stop = asyncio.Event()
    stop.set()

    async def work() -> int:
        return 7

    assert await run_until(stop, work()) == 7


async def test_probe_reaches_the_second_address(settings: Settings, broker: EmbeddedBroker) -> None:
    both = load_settings({"DUTYCYCLE_BROKER": f"127.0.0.1:{_closed_port()},{broker.bootstrap}"})
    await probe(both)


@pytest.mark.parametrize(("host", "reason"), [("127.0.0.1", "refused"), ("no-such-host.invalid", "name")])
async def test_probe_says_why(host: str, reason: str) -> None:
    with pytest.raises(BrokerUnreachableError, match=host) as caught:
        await probe(load_settings({"DUTYCYCLE_BROKER": f"{host}:{_closed_port()}"}))
    assert caught.value.reason == reason


async def test_probe_with_tls_to_a_port_without(broker: EmbeddedBroker) -> None:
    with pytest.raises(BrokerUnreachableError, match=broker.bootstrap) as caught:
        await probe(load_settings({"DUTYCYCLE_BROKER": f"kafka+ssl://{broker.bootstrap}"}))
    assert caught.value.reason in ("tls", "timeout", "connection")


def _closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])
