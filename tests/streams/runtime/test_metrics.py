"""What a worker says that it read: every record once, and those of them that count."""

from dataclasses import replace

import pytest

from dutycycle.contract.log import ConsumerRecord
from dutycycle.telemetry.events import SAMPLE_DUPLICATE, SAMPLE_LATE
from dutycycle.telemetry.metrics import RECORDS_TAKEN, RECORDS_USED
from streams.app import pause_s
from streams.operators.base import CountedEvent, Emission
from tests.support.fakes.broker import Broker
from tests.support.metrics import metric_value
from tests.support.streams.port import Worker, record
from tests.support.streams.toy import SOURCE, STAGE, Counter


class Noticing(Counter):
    """Says of a record what its number stands for."""

    def update(self, record: ConsumerRecord) -> list[Emission]:
        emissions = super().update(record)
        number = int((record.value or b"")[5:-1])
        names = {7: SAMPLE_LATE.name, 8: SAMPLE_DUPLICATE.name}
        return [*emissions, CountedEvent(names[number])] if number in names else emissions


@pytest.mark.parametrize(
    ("records", "taken", "used"),
    [
        pytest.param([], 0, 0, id="nothing came"),
        pytest.param([record(0, 1), record(1, 2)], 2, 2, id="both count"),
        pytest.param([record(0, 1), record(0, 1)], 1, 1, id="Faust gave it twice: once"),
        pytest.param([record(0, 7)], 1, 1, id="late: a peak takes it"),
        pytest.param([record(0, 1), record(1, 8)], 2, 1, id="a tick that was seen before"),
        pytest.param([record(0, b"rubbish"), record(1, 1, key=None)], 2, 0, id="dead letters"),
    ],
)
async def test_what_was_taken_and_what_counts(records: list[ConsumerRecord], taken: int, used: int) -> None:
    worker = Worker(Broker(), stage=replace(STAGE, build=Noticing))
    for commits in range(2):
        assert metric_value(worker.telemetry, RECORDS_TAKEN, topic=SOURCE) == taken * commits
        assert metric_value(worker.telemetry, RECORDS_USED, topic=SOURCE) == used * commits
        await worker.commit(*records)


async def test_what_was_read_before_an_assignment_stays_counted() -> None:
    worker = Worker(Broker())
    await worker.commit(record(0, 1))
    worker.coordinator.forget()
    assert metric_value(worker.telemetry, RECORDS_USED, topic=SOURCE) == 1


@pytest.mark.parametrize(
    ("interval_s", "took_s", "written_bytes", "expected_s"),
    [
        pytest.param(2.0, 0.1, 100_000, 2.0, id="cheap: as it was asked for"),
        pytest.param(2.0, 1.0, 0, 4.0, id="at most a fifth of the time"),
        pytest.param(2.0, 0.1, 5_000_000, 10.0, id="at most half a megabyte a second"),
        pytest.param(2.0, 60.0, 0, 60.0, id="the broker was away for a minute: no reason to wait for four"),
        pytest.param(60.0, 60.0, 0, 60.0, id="never more often than it was asked for"),
    ],
)
def test_how_long_a_commit_is_rested_from(
    interval_s: float, took_s: float, written_bytes: int, expected_s: float
) -> None:
    assert pause_s(interval_s, took_s, written_bytes) == expected_s


async def test_the_bytes_of_states_are_summed_up() -> None:
    worker = Worker(Broker())
    await worker.commit(record(0, 1))
    first = worker.coordinator.metrics.state_bytes
    assert first == sum(len(key) + len(value) for key, value in worker.port.broker.changelog.items())
    await worker.commit()
    assert worker.coordinator.metrics.state_bytes == first, "nothing came, and nothing is written"
