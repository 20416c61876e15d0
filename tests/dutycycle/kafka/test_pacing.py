"""A client asks for metadata at a pace: the first request at once, the failing ones ever more seldom."""

from types import SimpleNamespace
from typing import Any

import pytest

from dutycycle.kafka.clients import pace_metadata


class Asked:
    """A client's requests for metadata, each answered as it is told, on a clock that only waiting moves."""

    def __init__(self, answers: list[bool]) -> None:
        self.now_s, self.waits, self.asked = 100.0, list[float](), list[Any]()
        self._answers = iter(answers)
        self.client = SimpleNamespace(_metadata_update=self._update)
        pace_metadata(self.client, lambda: self.now_s, self._sleep)

    async def _update(self, *args: Any) -> bool:
        self.asked.append(args)
        return next(self._answers)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now_s += seconds


async def test_waits_double_while_nobody_answers_and_are_short_again_then() -> None:
    answers = [True, False, False, False, False, False, False, True, True]
    asked = Asked(answers)
    assert [await asked.client._metadata_update("cluster", {"topic"}) for _ in answers] == answers
    assert asked.waits == pytest.approx([0, 0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 0.05])
    assert asked.asked == [("cluster", {"topic"})] * len(answers)


async def test_time_that_has_passed_counts() -> None:
    asked = Asked([True, True])
    await asked.client._metadata_update()
    asked.now_s += 10
    await asked.client._metadata_update()
    assert asked.waits == [0, 0]
