"""Publishing a trace to a broker that goes away: a signal is heard all the same."""

import asyncio
from functools import partialmethod
from pathlib import Path
from typing import Any

import orjson
import pytest

from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.kafka.producer import Producer, send_once
from dutycycle.progress import Progress
from dutycycle.traces import republish
from dutycycle.traces.samples import TraceSamples
from tests.support.fakes.interruptible_broker import InterruptibleBroker
from tests.support.waiting import DEADLINE_S

UNSENT = "not all was acknowledged within 0.5 s"


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Any:
    """It goes away when a record waits in a producer, whose last records have half a second."""
    send = Producer.send

    async def send_and_lose(producer: Producer, *record: Any) -> Any:
        delivery = await send(producer, *record)
        away.set_down()
        return delivery

    monkeypatch.setattr(Producer, "send", send_and_lose)
    monkeypatch.setattr(Producer, "stop", partialmethod(Producer.stop, 0.5))
    with InterruptibleBroker({f"dutycycle.{name}": 1 for name in SAMPLE_TOPICS}) as away:
        yield away


async def test_a_signal_ends_it_while_the_broker_is_away(
    broker: InterruptibleBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, settle = asyncio.Event(), Producer.settle

    async def settle_as_stopped(producer: Producer, deliveries: Any) -> None:
        asyncio.get_running_loop().call_soon(stop.set)
        await settle(producer, deliveries)

    monkeypatch.setattr(Producer, "settle", settle_as_stopped)
    monkeypatch.setattr(republish, "stop_on_signals", lambda: stop)
    trace = tmp_path / "t.jsonl"
    trace.write_bytes(orjson.dumps({"topic": "dutycycle.pods", "key": "u", "payload": None}))
    read = TraceSamples([str(trace)], "dutycycle.")
    settings, pace = load({}, {"broker": broker.url}), republish.ReplayPace(None)
    with Progress("samples", quiet=True) as progress:
        publishing = asyncio.create_task(republish._publish(read, settings, pace, progress))
        ended, _ = await asyncio.wait({publishing}, timeout=DEADLINE_S)
        assert ended
        with pytest.raises(BrokerUnreachableError, match=UNSENT):
            await publishing


async def test_what_a_command_has_to_tell_does_not_wait_for_ever(broker: InterruptibleBroker) -> None:
    record = ProducerRecord("pods", "u", b"{}", 5)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(BrokerUnreachableError, match=UNSENT):
            await send_once(load({}, {"broker": broker.url}), "test", [record])
