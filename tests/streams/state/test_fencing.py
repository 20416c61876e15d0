"""Who else writes into a changelog is seen by the offsets of one's own records, and ends the worker."""

import pytest

from streams.runtime.events import STATE_REWRITTEN
from streams.state.fencing import ChangelogFence
from streams.state.record import offset_of, state_key
from streams.state.recovery import Rewrite
from tests.support.streams.port import Broker, Worker, record


@pytest.mark.parametrize(
    ("read", "wrote", "alone"),
    [
        ([], [0, 1, 2], [True, True, True]),
        ([], [7, 8], [True, True]),  # an empty changelog does not tell where it begins
        ([4, 9], [10, 11], [True, True]),
        ([4, 9], [11, 12], [False, True]),
        ([4, 9], [10, 12, 13], [True, False, True]),
        ([4, 9], [-1, 12, 13], [True, True, True]),  # taken before: the broker does not say where it is
        ([9], [0, 1], [True, True]),  # the topic was made anew
    ],
)
def test_a_hole_before_a_record_of_ours_is_somebody_else(
    read: list[int], wrote: list[int], alone: list[bool]
) -> None:
    writer = ChangelogFence()
    for offset in read:
        writer.read(0, offset)
    assert [writer.wrote(0, offset) for offset in wrote] == alone
    assert writer.wrote(1, 99), "another partition"


def test_where_nothing_is_written_the_end_tells() -> None:
    writer = ChangelogFence()
    assert writer.ends(0, 5), "nothing is known of it"
    writer.read(0, 4)
    assert writer.ends(0, 5)
    assert not writer.ends(0, 6)


async def test_a_worker_that_is_not_alone_ends_and_acknowledges_nothing() -> None:
    worker = Worker(Broker())
    await worker.take(record(0, 1))
    worker.port.disturbed = True
    await worker.coordinator.commit()
    assert "somebody else" in worker.port.failures[0]
    assert worker.port.broker.committed == {}


async def test_a_worker_that_writes_nothing_looks() -> None:
    worker = Worker(Broker())
    worker.port.disturbed = True
    await worker.coordinator.verify_ownership()
    assert worker.port.failures == [], "before its states are recovered nothing can be said"
    worker.coordinator.begin()
    await worker.coordinator.verify_ownership()
    assert "somebody else" in worker.port.failures[0]


async def test_what_is_outdated_is_written_anew_with_the_first_commit() -> None:
    broker, key = Broker(), state_key(0, "a")
    first = Worker(broker)
    await first.take(record(0, 1), record(1, 2))
    await first.coordinator.commit()
    newest = broker.changelog[key]
    again = Worker(broker)
    again.port.outdated_records = [Rewrite(0, key, newest, 1), Rewrite(0, state_key(0, "b"), None, 5)]
    broker.changelog[key] = broker.changelog[state_key(0, "b")] = b"late"
    again.coordinator.begin()
    await again.coordinator.commit()
    assert broker.changelog == {key: newest}
    assert offset_of(newest) == 1
    assert again.telemetry.count(STATE_REWRITTEN) == 2
    steps = len(again.port.steps)
    await again.coordinator.commit()
    assert again.port.steps[steps:] == [], "once"
