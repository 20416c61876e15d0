"""Goal: after an outage topics are followed again, and each outage is waited for anew."""

import asyncio
from typing import Any

import pytest

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.settings.load import load
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.telemetry.events import Telemetry
from sinks import follow
from sinks.follow import TopicFollower

SETTINGS = load({"DUTYCYCLE_NODE": "any", "DUTYCYCLE_BROKER": "kafka://127.0.0.1:9"})
OUTAGES = 3


class Flaky:
    """A consumer that is lost as soon as it has answered; at every second start nothing answers at all."""

    starts = 0

    def __init__(self, *_: Any) -> None:
        type(self).starts += 1

    async def start(self) -> None:
        if self.starts % 2 == 0:
            raise BrokerUnreachableError("refused", "nothing listens there")

    async def ends(self) -> dict[Any, int]:
        return {}

    async def reached(self, _: Any) -> bool:
        return True

    async def take(self, *_: Any) -> list[Any]:
        raise BrokerUnreachableError("lost", "the connection was lost")

    async def stop(self) -> None:
        """There is no connection."""


async def test_of_topics_that_nobody_writes_nothing_is_asked() -> None:
    settings, reached = load({"DUTYCYCLE_NODE": "any", "DUTYCYCLE_ANALYSES": "usage"}), asyncio.Event()
    follower = TopicFollower(settings, Telemetry("metrics"), "test")  # there is no broker
    topics = ["cycles", "insights"]
    await follower.follow(topics, lambda: "beginning", lambda messages: None, reached.set)
    assert reached.is_set()


async def test_after_an_answer_the_next_outage_is_waited_for_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[int] = []
    enough = asyncio.Event()

    def next_s(backoff: Backoff) -> float:
        failures.append(backoff.failures)
        backoff.failures += 1
        if len(failures) == 2 * OUTAGES:
            enough.set()
        return 0

    monkeypatch.setattr(Backoff, "next_s", next_s)
    monkeypatch.setattr(follow, "Consumer", Flaky)
    follower = TopicFollower(SETTINGS, Telemetry("metrics"), "test")
    following = asyncio.create_task(
        follower.follow(["pods"], lambda: "beginning", lambda messages: None, lambda: None)
    )
    await asyncio.wait_for(enough.wait(), 30)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    assert failures[: 2 * OUTAGES] == [0, 1] * OUTAGES
