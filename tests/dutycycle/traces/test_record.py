"""A recording while the broker goes away."""

import asyncio
from typing import Any

import pytest

from dutycycle.contract.log import ConsumerRecord, TopicPartition
from dutycycle.kafka.errors import BrokerUnreachableError
from dutycycle.progress import Progress
from dutycycle.traces.record import RecordRequest, _until_done


class SilentConsumer:
    """Has five records before it, of a broker that does not answer any more."""

    async def ends(self) -> dict[TopicPartition, int]:
        return {TopicPartition("pods", 0): 5}

    async def left(self, _ends: object) -> int:
        return 5

    async def take(self, wait_s: float) -> list[ConsumerRecord]:
        await asyncio.sleep(wait_s / 100)
        return []

    def refuse_silence(self) -> None:
        raise BrokerUnreachableError("timeout", "no answer")


async def record(request: RecordRequest) -> int:
    consumer: Any = SilentConsumer()
    trace: Any = None
    with Progress("records", quiet=True) as progress:
        counts = await _until_done(consumer, trace, request, asyncio.Event(), progress)
    return counts.total()


async def test_of_what_lies_there_a_broker_that_goes_silent_is_said() -> None:
    """It waited without end, and without a word."""
    with pytest.raises(BrokerUnreachableError):
        await asyncio.wait_for(record(RecordRequest(("pods",), 0, None, None)), 30)


async def test_who_records_for_a_time_outlasts_an_outage() -> None:
    assert await asyncio.wait_for(record(RecordRequest(("pods",), None, None, 0.1)), 30) == 0
