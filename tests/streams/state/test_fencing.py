"""Who else writes into a changelog is seen by the offsets of one's own records, and ends the worker."""

import pytest

from dutycycle.contract.log import TopicPartition
from streams.runtime.events import STATE_REWRITTEN
from streams.state.fencing import ChangelogFence
from streams.state.record import BodyKind, offset_of, state_key, to_value, tombstone_headers
from tests.support.fakes.broker import Broker, Stored
from tests.support.streams.port import Worker, place, record

KEY, CHANGELOG = state_key(0, "a"), TopicPartition("toy", 0)


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


async def begun() -> Worker:
    """A worker that goes on from the state of another."""
    first = Worker(Broker())
    await first.commit(record(0, 1))
    worker = Worker(first.port.broker)
    worker.coordinator.begin()
    return worker


def written_late(worker: Worker) -> None:
    """The worker before writes once more: it does not know yet that it was replaced."""
    broker = worker.port.broker
    broker.changelogs[CHANGELOG].append(Stored(KEY, broker.changelog[KEY], []))


async def test_a_worker_that_is_not_the_sole_writer_ends_and_acknowledges_nothing() -> None:
    worker = await begun()
    await worker.take(record(1, 1))
    written_late(worker)
    await worker.commit()
    assert "somebody else" in worker.port.failures[0]
    assert worker.port.broker.committed == {place(): 1}


async def test_a_worker_that_writes_nothing_asks_the_broker() -> None:
    worker = await begun()
    written_late(worker)
    worker.coordinator.forget()
    await worker.coordinator.verify_ownership()
    assert worker.port.failures == [], "before its states are recovered nothing can be said"
    worker.coordinator.begin()
    await worker.coordinator.verify_ownership()
    assert "somebody else" in worker.port.failures[0]


async def test_what_is_outdated_is_written_anew_with_the_first_commit() -> None:
    broker, gone = Broker(), state_key(0, "b")
    first = Worker(broker)
    await first.commit(record(0, 1), record(1, 2))
    newest, changelog = broker.changelog[KEY], broker.changelogs[CHANGELOG]
    changelog.append(Stored(gone, None, tombstone_headers(5)))
    late = to_value(BodyKind.PLAIN, 0, 0, b"{}")  # older than both
    for key in (KEY, gone):
        changelog.append(Stored(key, late, []))
    again = Worker(broker)
    again.coordinator.begin()
    await again.commit()
    changelog.compact(changelog.closed(float("inf")), purge_until_s=-1.0)
    assert broker.changelog == {KEY: newest}
    assert offset_of(newest) == 1
    assert again.telemetry.count(STATE_REWRITTEN) == 2
    steps = len(again.port.steps)
    await again.commit()
    assert again.port.steps[steps:] == [], "once"
