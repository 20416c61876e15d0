"""What the extender said is sent in order, also after an outage; what is too much is dropped and counted."""

import asyncio
from typing import Any

import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.records.placement import Placement
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.kafka.reachability import StoppedError, unless
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
    with pytest.raises(StoppedError):
        await unless(broker.all_sent, ours.run())
    assert (broker.connections, broker.sent) == (2, [said(1), said(2)])
    assert not telemetry.conditions


def test_what_does_not_fit_is_dropped_and_counted() -> None:
    telemetry: Any = Telemetry(EXTENDER)
    ours = Placements(Settings(), telemetry)
    for number in range(1002):
        ours.tell(said(number))
    assert telemetry.count(PLACEMENT_DROPPED) == 2
