"""A worker that dies within the first commit of a partition: its states are stored, its clock is not."""

import pytest

from dutycycle.contract.log import ConsumerRecord
from streams.operators.base import Stage
from tests.streams.runtime.test_checkpoint import at, newest
from tests.support.fakes.broker import Broker
from tests.support.streams.port import Died, Worker, record
from tests.support.streams.toy import RESULT, SOURCE, Counter

STAGE = Stage(name="toy", source=SOURCE, build=Counter, evict_ms=24_000)


def second(offset: int) -> ConsumerRecord:
    """One record a second, of a single key."""
    one = record(offset, 1)
    return ConsumerRecord(one.topic, one.partition, one.offset, one.key, one.value, 1_000 * offset)


async def test_time_that_is_read_again_does_not_count_twice() -> None:
    broker = Broker()
    first = Worker(broker, dies=at("save-clock", 0), stage=STAGE)
    await first.take(*map(second, range(60)))
    with pytest.raises(Died):
        await first.commit()
    assert (len(broker.changelog), broker.committed) == (1, {})
    again = Worker(broker, stage=STAGE)
    await again.commit(*map(second, range(61)))
    assert newest(broker.outputs, RESULT) == {"a": [61, 61]}
