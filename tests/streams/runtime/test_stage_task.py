"""One stage's task: what becomes of bad records, failing operators and unusable states."""

from base64 import b64decode

import orjson
import pytest

from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.telemetry.events import DEAD_LETTER, SAMPLE_LATE
from streams.operators.base import Emission, Snapshot, Stage
from streams.state.codec import pack
from streams.state.record import state_key
from tests.support.fakes.broker import Broker
from tests.support.streams.port import Worker, place, record
from tests.support.streams.toy import RESULT, SOURCE, STAGE, TRAIL, Counter

BIG = b"x" * 1_000_001


def newest(worker: Worker) -> dict[str, list[int]]:
    return {
        out.key: orjson.loads(out.value or b"") for out in worker.port.broker.outputs if out.topic == RESULT
    }


def dead_letters(worker: Worker) -> list[tuple[str, int, str]]:
    letters = [(out.key, orjson.loads(out.value or b"")) for out in worker.port.broker.outputs
               if out.topic == "dead-letters"]  # fmt: skip
    return [(key, letter["offset"], letter["reason"]) for key, letter in letters]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        pytest.param(record(1, b"rubbish"), "decode", id="refused by the operator"),
        pytest.param(record(1, None), "decode", id="a tombstone that the operator does not take"),
        pytest.param(record(1, b'{"n":1,"boom":1}'), "operator", id="failed on"),
        pytest.param(record(1, b'{"m":1}'), "operator", id="failed on halfway"),
        pytest.param(record(1, BIG), "size", id="too large"),
        pytest.param(record(1, 1, key=None), "key", id="no key"),
        pytest.param(record(1, 1, key=""), "key", id="an empty key"),
    ],
)
async def test_a_bad_record_is_a_dead_letter_and_nothing_else(bad: ConsumerRecord, reason: str) -> None:
    """The good ones beside it count, before and after a restart, as if it had never come."""
    worker = Worker(Broker())
    await worker.commit(record(0, 1), bad, record(2, 2))
    assert newest(worker) == {"a": [2, 3]}
    assert dead_letters(worker) == [(bad.key or "", 1, reason)]
    assert worker.telemetry.counts[DEAD_LETTER.name, (SOURCE, reason)] == 1
    again = Worker(worker.port.broker)
    await again.commit(record(3, 3))
    assert newest(again) == {"a": [3, 6]}


async def test_a_dead_letter_says_where_and_holds_the_payload() -> None:
    worker = Worker(Broker())
    await worker.commit(record(0, BIG, partition=3))
    (out,) = worker.port.broker.outputs
    letter = orjson.loads(out.value or b"")
    assert (letter["topic"], letter["partition"], letter["offset"]) == ("t." + SOURCE, 3, 0)
    assert out.ts_ms == letter["ts_ms"] == 1000
    assert b64decode(letter["payload_b64"]) == BIG[:65_536]


async def test_an_operator_that_fails_gets_back_what_was_not_stored_yet() -> None:
    worker = Worker(Broker())
    await worker.commit(record(0, 1))
    await worker.take(
        record(1, 2), record(2, b'{"n":9,"boom":1}'), record(3, 4), record(4, b'{"m":1}'), record(5, 8)
    )
    await worker.commit()
    assert newest(worker) == {"a": [4, 15]}


async def test_outputs_before_a_failure_are_sent_once() -> None:
    worker = Worker(Broker())
    await worker.take(
        *(record(n, 1) for n in range(15)), record(15, b'{"boom":1}'), *(record(n, 1) for n in (16, 17))
    )
    await worker.commit()
    trail = [out for out in worker.port.broker.outputs if out.topic == TRAIL]
    assert len(trail) == 1


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(pack(state_key(0, "a"), 5, {"v": 2}, None).head[1], id="unknown version"),
        pytest.param(pack(state_key(0, "a"), 5, {}, None).head[1], id="the operator fails on it"),
        pytest.param(b"hello", id="damaged"),
    ],
)
async def test_a_state_of_no_use_is_begun_anew_and_told(stored: bytes) -> None:
    broker = Broker()
    broker.replace("toy", state_key(0, "a"), stored)
    broker.committed[place()] = 6
    worker = Worker(broker)
    await worker.commit(record(6, 5), record(7, 6))
    assert newest(worker) == {"a": [2, 11]}
    assert worker.telemetry.counts["state_reset", ("toy",)] == 1


async def test_what_an_operator_tells_is_counted() -> None:
    worker = Worker(Broker())
    await worker.take(record(0, 5), record(1, 3), record(2, 1))
    assert worker.telemetry.counts[SAMPLE_LATE.name, (SOURCE,)] == 2


class Unwell(Counter):
    """Fails where no record is to blame: in ``flush`` for the key a, in ``snapshot`` for b."""

    def flush(self) -> list[Emission]:
        if self._key == "a" and self._state["sum"] >= 100:
            raise RuntimeError("flush")
        return super().flush()

    def snapshot(self) -> Snapshot:
        if self._key == "b" and self._state["sum"] >= 100:
            raise RuntimeError("snapshot")
        return super().snapshot()


async def test_a_broken_operator_begins_anew_and_the_others_go_on() -> None:
    worker = Worker(Broker(), stage=Stage(name="toy", source=SOURCE, build=Unwell))
    await worker.commit(record(0, 100, "a"), record(1, 100, "b"), record(2, 100, "c"))
    await worker.commit(record(3, 1, "a"), record(4, 1, "b"), record(5, 1, "c"))
    assert newest(worker) == {"a": [1, 1], "b": [1, 1], "c": [2, 101]}
    assert worker.port.failures == []
    assert worker.port.broker.committed == {place(): 6}


async def test_an_operator_may_begin_anew_while_its_state_is_on_its_way() -> None:
    worker = Worker(Broker(), stage=Stage(name="toy", source=SOURCE, build=Unwell))
    task = worker.task
    await worker.take(record(0, 1), record(1, 1))
    checkpoint = task.checkpoint([0])
    for key in checkpoint.keys:
        task.add_state(checkpoint, key)
    await worker.take(record(2, 100))
    task.flush(1)  # fails, and with it go the records that are kept
    await worker.take(record(3, 1))
    task.states_stored(checkpoint)
    await worker.commit(record(4, 2))
    assert newest(worker) == {"a": [2, 3]}
    assert worker.port.failures == []


async def test_an_operator_that_cannot_begin() -> None:
    def build(key: str, snapshot: Snapshot | None) -> Counter:
        if key == "a":
            raise RuntimeError("no")
        return Counter(key, snapshot)

    worker = Worker(Broker(), stage=Stage(name="toy", source=SOURCE, build=build))
    await worker.commit(record(0, 1), record(1, 1, "b"))
    assert dead_letters(worker) == [("a", 0, "operator")]
    assert newest(worker) == {"b": [1, 1]}


async def test_the_same_key_in_two_partitions_is_two_states() -> None:
    worker = Worker(Broker())
    await worker.commit(record(0, 1), record(0, 7, partition=1), record(1, 2))
    assert len(worker.port.broker.changelog) == 2
    assert worker.port.broker.committed == {place(): 2, place(1): 1}


async def test_idle_operators_leave_memory_and_come_back() -> None:
    worker = Worker(Broker(), max_resident=100)
    many = 120
    await worker.commit(*(record(n, n, f"k{n}") for n in range(many)))
    assert len(worker.task._operators) == 100
    await worker.commit(record(many, 3, "k0"))
    assert newest(worker)["k0"] == [2, 3]


async def test_an_output_that_is_too_large_is_left_out_and_told() -> None:
    class Large(Counter):
        def flush(self) -> list[Emission]:
            return [ProducerRecord(RESULT, self._key, BIG, 0)]

    worker = Worker(Broker(), stage=Stage(name="toy", source=SOURCE, build=Large))
    await worker.commit(record(0, 1))
    assert worker.port.broker.outputs == []
    assert worker.telemetry.counts["record_too_large", (RESULT,)] == 1
    assert worker.port.broker.committed == {place(): 1}


def test_the_toy_is_the_stage_under_test() -> None:
    assert STAGE.build is Counter
