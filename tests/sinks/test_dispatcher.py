"""The dispatcher: what is given to which sink, what becomes a dead letter, and what may be acknowledged."""

import asyncio
from base64 import b64decode
from typing import Any

import pytest

from dutycycle.contract.log import ConsumerRecord, TopicPartition
from dutycycle.contract.records.derived import PodPeaks
from sinks.base import PendingOffsets
from tests.support.sinks import made
from tests.support.sinks.rig import Rig

PLACE = TopicPartition("pod-peaks", 0)


class ListSink:
    """Holds everything until ``write`` is called; refuses pods named ``cursed``."""

    name, pending = "list", 0

    def __init__(self, *topics: str) -> None:
        self.topics: tuple[str, ...] = topics or ("pod-peaks",)
        self.taken: list[Any] = []
        self._held = PendingOffsets()

    def wants(self, origin: ConsumerRecord) -> bool:
        return origin.value is not None and origin.key != "unwanted"

    def take(self, origin: ConsumerRecord, record: Any) -> None:
        if isinstance(record, PodPeaks) and record.pod.name == "cursed":
            raise ValueError("it is cursed")
        self.taken.append(record)
        self._held.add(origin.topic_partition, origin.offset)

    async def room(self) -> None:
        pass

    def pending_offsets(self) -> PendingOffsets:
        return self._held

    def write(self) -> None:
        self._held = PendingOffsets()

    def forget(self) -> None:
        self.taken.clear()
        self.write()

    async def run(self) -> None:
        pass

    async def drain(self) -> None:
        self.write()

    async def close(self) -> None:
        pass


async def test_records_are_acknowledged_once_every_sink_has_written() -> None:
    rig, first, second = Rig(), ListSink(), ListSink()
    dispatcher = rig.dispatcher(first, second)
    records = [made.pod_peaks(f"uid-{i}") for i in range(3)]
    await dispatcher.process([rig.origin("pod-peaks", record) for record in records])
    dispatcher.acknowledge()
    assert first.taken == second.taken == records
    assert rig.port.acknowledged == {}
    first.write()
    dispatcher.acknowledge()
    assert rig.port.acknowledged == {}
    second.write()
    dispatcher.acknowledge()
    assert rig.port.acknowledged == {PLACE: 2}


POISON = {
    "no JSON": (b"\xff\x00", "decode", "payload: not JSON"),
    "not an object": (b"[1]", "decode", "payload: Expected `object`"),
    "a field missing": (b'{"v":1}', "schema", "pod: missing"),
    "the future": (b'{"v":2}', "version", "v: version 2"),
    "not for us": (made.pod_peaks(pod_fields={"name": "cursed"}), "rejected", "list: it is cursed"),
}


@pytest.mark.parametrize(("record", "reason", "words"), POISON.values(), ids=POISON.keys())
async def test_poison_goes_to_the_dead_letters_and_the_rest_goes_on(
    record: Any, reason: str, words: str
) -> None:
    rig, sink = Rig(), ListSink()
    dispatcher = rig.dispatcher(sink)
    good = [made.pod_peaks("uid-1"), made.pod_peaks("uid-2")]
    origins = [rig.origin("pod-peaks", one) for one in (good[0], record, good[1])]
    await dispatcher.process(origins)
    sink.write()
    dispatcher.acknowledge()
    assert sink.taken == good
    assert rig.port.acknowledged == {PLACE: 2}
    (letter,) = rig.port.dead_letters
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("dutycycle.pod-peaks", 0, 1)
    assert letter["reason"] == reason
    assert letter["error"].startswith(words)
    assert b64decode(letter["payload_b64"]) == origins[1].value
    assert rig.telemetry.counts["dead_letter", ("pod-peaks", reason)] == 1


MISPLACED: dict[str, tuple[str, Any, str]] = {
    "a pod": ("pod-peaks", made.pod_peaks("uid-9"), "uid-9"),
    "a job": ("job-peaks", made.job_peaks("job-9"), "job-9"),
    "a part of a node": ("node-parts", made.node_part("gpu-z"), "gpu-z"),
    "an insight": ("pod-insights", made.insight("training", "gpu", None), "uid-1"),
}


@pytest.mark.parametrize(("topic", "record", "own"), MISPLACED.values(), ids=MISPLACED.keys())
async def test_a_record_under_anothers_key_is_a_dead_letter(topic: str, record: Any, own: str) -> None:
    rig, sink = Rig(), ListSink(topic)
    await rig.dispatcher(sink).process([rig.origin(topic, record, key="uid-2"), rig.origin(topic, record)])
    assert sink.taken == [record]
    (letter,) = rig.port.dead_letters
    assert (letter["reason"], letter["offset"]) == ("key", 0)
    assert letter["error"] == f"key: lies under 'uid-2', which is not its own, '{own}'"


async def test_one_sink_that_cannot_does_not_keep_it_from_another() -> None:
    rig, sink = Rig(), ListSink()

    class Indifferent(ListSink):
        def take(self, origin: ConsumerRecord, record: Any) -> None:
            self.taken.append(record)

    other = Indifferent()
    cursed = made.pod_peaks(pod_fields={"name": "cursed"})
    await rig.dispatcher(sink, other).process([rig.origin("pod-peaks", cursed)])
    assert (len(sink.taken), len(other.taken), len(rig.port.dead_letters)) == (0, 1, 1)


async def test_a_dead_letter_that_cannot_be_sent_ends_the_worker_and_nothing_is_acknowledged() -> None:
    rig, sink = Rig(), ListSink()
    dispatcher = rig.dispatcher(sink)
    rig.port.dead_letters_fail = True
    await dispatcher.process([rig.origin("pod-peaks", made.pod_peaks())])
    sink.write()
    stuck = asyncio.create_task(dispatcher.process([rig.origin("pod-peaks", b"{")]))
    done, _ = await asyncio.wait([stuck], timeout=0.2)
    assert not done
    dispatcher.acknowledge()
    assert rig.port.acknowledged == {PLACE: 0}
    assert "the broker is gone" in rig.port.failures[0]
    stuck.cancel()


async def test_tombstones_and_what_nobody_wants_count_as_done() -> None:
    rig, sink = Rig(), ListSink("pod-peaks", "trends")
    dispatcher = rig.dispatcher(sink)
    await dispatcher.process([rig.origin("pod-peaks", None)])
    await dispatcher.process([rig.origin("trends", b"never decoded", key="unwanted")])
    dispatcher.acknowledge()
    assert rig.port.acknowledged == {PLACE: 0, TopicPartition("trends", 0): 0}
    assert sink.taken == rig.port.dead_letters == []


async def test_a_record_read_twice_is_taken_once() -> None:
    rig, sink = Rig(), ListSink()
    rig.port.committed[PLACE] = 5
    dispatcher = rig.dispatcher(sink)
    offsets = (3, 5, 6, 5, 6, 7)
    await dispatcher.process([rig.origin("pod-peaks", made.pod_peaks(f"uid-{n}"), offset=n) for n in offsets])
    assert [record.pod.uid for record in sink.taken] == ["uid-5", "uid-6", "uid-7"]


async def test_holes_of_a_compacted_topic_are_nothing_special() -> None:
    rig, sink = Rig(), ListSink()
    dispatcher = rig.dispatcher(sink)
    rig.port.on_broker[PLACE] = 9
    await dispatcher.process([rig.origin("pod-peaks", made.pod_peaks(), offset=9)])
    rig.port.on_broker[PLACE] = 10  # of a hole in the middle it is not asked
    await dispatcher.process([rig.origin("pod-peaks", made.pod_peaks(), offset=12)])
    assert (len(sink.taken), rig.port.failures) == (2, [])


async def test_records_lost_at_the_start_of_a_compacted_topic_end_the_worker() -> None:
    rig, sink = Rig(), ListSink()
    rig.port.on_broker[PLACE] = 0
    task = asyncio.create_task(
        rig.dispatcher(sink).process([rig.origin("pod-peaks", made.pod_peaks(), offset=9)])
    )
    await asyncio.wait([task], timeout=0.2)
    assert (sink.taken, len(rig.port.failures)) == ([], 1)
    task.cancel()


HOLES = {
    "gone by retention": (None, 7, False, 9),
    "gone, never read before": (None, None, False, 0),
    "still on the broker": (4, 7, True, 0),
}


@pytest.mark.parametrize(("there", "begun", "fails", "gaps"), HOLES.values(), ids=HOLES.keys())
async def test_a_hole_in_a_log_is_loss_if_the_broker_has_what_is_missing(
    there: int | None, begun: int | None, fails: bool, gaps: int
) -> None:
    rig, sink = Rig(), ListSink("window-aggregates")
    place = TopicPartition("window-aggregates", 0)
    if there is not None:
        rig.port.on_broker[place] = there
    if begun is not None:
        rig.port.committed[place] = begun - 7
    dispatcher = rig.dispatcher(sink)
    task = asyncio.create_task(dispatcher.process([rig.origin("window-aggregates", b"{", offset=9)]))
    await asyncio.wait([task], timeout=0.2)
    assert bool(rig.port.failures) is fails
    assert rig.count("source_gap") == gaps
    assert len(rig.port.dead_letters) == (0 if fails else 1)
    task.cancel()


async def test_what_was_taken_before_a_rebalance_is_nobody_s() -> None:
    rig, sink = Rig(), ListSink()
    dispatcher = rig.dispatcher(sink)
    await dispatcher.process([rig.origin("pod-peaks", made.pod_peaks())])
    dispatcher.forget()
    dispatcher.acknowledge()
    assert sink.taken == []
    assert rig.port.acknowledged == {}


async def test_a_rebalance_during_a_dead_letter_leaves_it_to_the_next_owner() -> None:
    rig, sink = Rig(), ListSink()
    dispatcher = rig.dispatcher(sink)
    handling = asyncio.create_task(dispatcher.process([rig.origin("pod-peaks", b"{")]))
    await asyncio.sleep(0)
    dispatcher.forget()
    await handling
    dispatcher.acknowledge()
    assert rig.port.acknowledged == {}


async def test_draining_writes_and_acknowledges() -> None:
    rig, sink = Rig(), ListSink()
    dispatcher = rig.dispatcher(sink)
    await dispatcher.process([rig.origin("pod-peaks", made.pod_peaks())])
    await dispatcher.drain()
    assert rig.port.acknowledged == {PLACE: 0}
