"""What is asked of a broker about the offsets of a partition."""

from types import SimpleNamespace
from typing import Any

import pytest

from dutycycle.contract.settings.load import load
from dutycycle.kafka.clients import partition
from dutycycle.kafka.faust import offsets


class LateBroker:
    """Answers the first fetch with nothing, in the place of a consumer. It has ``records`` below 10."""

    def __init__(self, *records: int) -> None:
        self.records, self.at, self.fetches = records, 0, 0

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass

    def assign(self, _places: object) -> None:
        pass

    def seek(self, _place: object, offset: int) -> None:
        self.at = offset

    async def getmany(self, **_options: object) -> dict[str, list[Any]]:
        self.fetches += 1
        if self.fetches == 1:
            return {}
        ahead = [offset for offset in self.records if offset >= self.at]
        self.at = ahead[0] + 1 if ahead else 10
        return {"place": [SimpleNamespace(offset=ahead[0])]} if ahead else {}

    async def end_offsets(self, _places: object) -> dict[Any, int]:
        return {partition("nvml-samples", 3): 10}

    async def position(self, _place: object) -> int:
        return self.at


@pytest.mark.parametrize(
    ("records", "first"), [([2, 7, 8], 7), ([2], None)], ids=["late", "none: a mark alone is left"]
)
async def test_a_late_answer_is_not_taken_for_none(
    records: list[int], first: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Records that are on the broker would be passed over as gone from it."""
    broker = LateBroker(*records)
    monkeypatch.setattr(offsets, "new_consumer", lambda *_, **__: broker)
    settings = load({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"})
    assert await offsets.first_offset(settings, "nvml-samples", 3, 5) == first
