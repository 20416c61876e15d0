"""What the extender said is sent in order, also after an outage; what is too much is dropped and counted."""

import asyncio
from typing import Any

import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.records.placement import Placement
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.telemetry.events import EXTENDER, Telemetry
from sinks.events import PLACEMENT_DROPPED
from sinks.scheduling import placements
from sinks.scheduling.placements import TOPIC, Placements


def said(number: int) -> Placement:
    return Placement(
        uid=f"u-{number}", namespace="ml", name="a", ts_ms=number, considered=1, left_out=0, nodes=()
    )


class Broker:
    """Answers the second connection alone: the first is lost with the first record."""

    def __init__(self) -> None:
        self.connections = 0
        self.sent: list[Placement] = []
        self.all_sent = asyncio.Event()

    def producer(self, settings: Settings, name: str) -> "Broker":
        return self

    async def start(self) -> None:
        self.connections += 1

    async def send(self, topic: str, key: str, value: bytes, ts_ms: int) -> bytes:
        return value

    async def settle(self, records: list[bytes]) -> None:
        if self.connections == 1:
            raise BrokerUnreachableError("refused", "lost")
        self.sent += [decode(Placement, one, TOPIC) for one in records]
        if len(self.sent) == 2:
            self.all_sent.set()

    async def abort(self) -> None:
        return


async def test_what_was_under_way_when_the_broker_went_away_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker()
    monkeypatch.setattr(placements, "Producer", broker.producer)
    telemetry = Telemetry(EXTENDER)
    ours = Placements(Settings(broker="kafka://a:1"), telemetry)
    for number in (1, 2):
        ours.tell(said(number))
    ours.start()
    await asyncio.wait_for(broker.all_sent.wait(), 120)
    await ours.close()
    assert (broker.connections, broker.sent) == (2, [said(1), said(2)])
    assert not telemetry.conditions


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    telemetry: Any = Telemetry(EXTENDER)
    ours = Placements(Settings(), telemetry)
    for number in range(1002):
        ours.tell(said(number))
    assert telemetry.count(PLACEMENT_DROPPED) == 2


async def test_what_waits_at_the_end_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker()
    broker.connections = 1
    monkeypatch.setattr(placements, "Producer", broker.producer)
    telemetry = Telemetry(EXTENDER)
    ours = Placements(Settings(broker="kafka://a:1"), telemetry)
    ours.start()
    await asyncio.sleep(0)
    for number in (1, 2, 3):
        ours.tell(said(number))
    await ours.close()
    assert broker.sent == [said(1), said(2), said(3)]
    assert telemetry.count(PLACEMENT_DROPPED) == 0


async def test_what_a_broker_that_is_away_does_not_take_in_time_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Away(Broker):
        async def settle(self, records: list[bytes]) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr(placements, "Producer", Away().producer)
    telemetry: Any = Telemetry(EXTENDER)
    ours = Placements(Settings(broker="kafka://a:1"), telemetry)
    ours.start()
    for number in (1, 2):
        ours.tell(said(number))
    await ours.close(most_s=0.05)
    assert telemetry.count(PLACEMENT_DROPPED) == 2, "the one under way, and the one that waits"
