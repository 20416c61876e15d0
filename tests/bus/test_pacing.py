"""A client asks for metadata at a pace: the first request at once, the failing ones ever more seldom."""

from types import SimpleNamespace
from typing import Any

import pytest

from bus.kafka.pacing import FIRST_S, MOST_S, Pace, pace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_pauses_double_while_nobody_answers_and_are_short_again_then() -> None:
    clock = Clock()
    own = Pace(clock)
    waits = []
    for good in (True, False, False, False, False, False, False, True, True):
        waits.append(own.wait_s())
        clock.now += own.wait_s()
        own.ended(good=good)
    assert waits == pytest.approx([0, FIRST_S, 0.1, 0.2, 0.4, 0.8, MOST_S, MOST_S, FIRST_S])


def test_time_that_has_passed_counts() -> None:
    clock = Clock()
    own = Pace(clock)
    own.ended(good=True)
    clock.now += 10
    assert own.wait_s() == 0


async def test_a_client_is_paced_and_gets_its_answer() -> None:
    asked: list[Any] = []

    async def update(*args: Any) -> bool:
        asked.append(args)
        return len(asked) > 1

    client = SimpleNamespace(_metadata_update=update)
    pace(client)
    assert await client._metadata_update("cluster", {"topic"}) is False
    assert await client._metadata_update("cluster", {"topic"}) is True
    assert asked == [("cluster", {"topic"})] * 2
