"""Which records of a source are taken: none twice, none after a loss."""

import asyncio
from typing import Any

import pytest

from dutycycle.contract.log import ConsumerRecord, TopicPartition
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.kafka.faust.sequence import SourceSequence
from dutycycle.telemetry.events import SOURCE_GAP, Telemetry


class FewRecords:
    """As much of a port as is asked: what is committed, and the offsets that the broker has."""

    def __init__(self, *on_broker: int, begins: int | None = None) -> None:
        self.on_broker, self.begins = on_broker, begins
        self.asked: list[int] = []

    def begins_at(self, source: TopicPartition) -> int | None:
        return self.begins

    async def first_offset(self, source: TopicPartition, offset: int) -> int | None:
        self.asked.append(offset)
        return next((one for one in self.on_broker if one >= offset), None)


def sequence(port: FewRecords) -> tuple[SourceSequence, list[str], Telemetry]:
    failures: list[str] = []
    typed: Any = port
    telemetry = Telemetry("test")
    return SourceSequence(typed, telemetry, failures.append), failures, telemetry


def record(offset: int, topic: str = "nvml-samples") -> ConsumerRecord:
    return ConsumerRecord(topic, 3, offset, "node", b"", 0)


async def test_a_record_is_admitted_once_in_its_place() -> None:
    gate, failures, _ = sequence(FewRecords(begins=5))
    assert gate.next_offset("nvml-samples", 3) is None
    said = [await gate.admits(record(offset)) for offset in (4, 5, 6, 6, 5, 7)]
    assert (said, failures) == ([False, True, True, False, False, True], [])
    assert gate.next_offset("nvml-samples", 3) == 8
    gate.forget()
    assert await gate.admits(record(5)), "after an assignment the committed offset counts again"


@pytest.mark.parametrize(
    ("topic", "begins", "offsets", "on_broker", "asked", "gaps"),
    [
        pytest.param("nvml-samples", 5, [5, 9], [5, 9], [6], 3, id="expired: each offset counted"),
        pytest.param("nvml-samples", None, [9], [9], [0], 0, id="nothing was ever committed: not counted"),
        pytest.param("pod-peaks", 5, [7, 9], [7, 9], [5], 0, id="compacted: asked at the start alone"),
    ],
)
async def test_a_gap_of_the_broker_s_own_is_passed(
    topic: str, begins: int | None, offsets: list[int], on_broker: list[int], asked: list[int], gaps: int
) -> None:
    port = FewRecords(*on_broker, begins=begins)
    gate, failures, telemetry = sequence(port)
    async with asyncio.timeout(30):  # what it does not admit it holds for ever
        assert all([await gate.admits(record(offset, topic)) for offset in offsets])
    assert (port.asked, failures, telemetry.count(SOURCE_GAP)) == (asked, [], gaps)


async def test_a_loss_ends_the_worker_and_admits_nothing_after_it() -> None:
    gate, failures, _ = sequence(FewRecords(5, 6, 9, begins=5))
    admitting = asyncio.create_task(gate.admits(record(9)))
    await asyncio.wait([admitting], timeout=0.1)
    assert not admitting.done()
    assert failures == ["nvml-samples-3: 5-8 were not delivered, but are on the broker from 5 on"]
    admitting.cancel()


async def test_a_broker_that_does_not_say_what_is_missing_ends_the_worker() -> None:
    """An exception would end the agent alone, and nothing is taken for expired that may be there."""

    class AwayBroker(FewRecords):
        async def first_offset(self, source: TopicPartition, offset: int) -> int | None:
            raise BrokerUnreachableError("timeout", "no answer in time")

    gate, failures, _ = sequence(AwayBroker(begins=5))
    admitting = asyncio.create_task(gate.admits(record(9)))
    await asyncio.wait([admitting], timeout=0.1)
    assert not admitting.done()
    assert failures == [
        "nvml-samples-3: 5-8 were not delivered, and the broker does not say why: no answer in time"
    ]
    admitting.cancel()
