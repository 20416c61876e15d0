"""The stages in process: our own faults cost a record, as in a worker, and no replay."""

import orjson

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.pods import Pod
from streams.local import STORED_EVERY, LocalPipeline
from streams.operators.base import Emission, Snapshot, Stage
from streams.operators.forward import PodForwarder
from tests.streams.runtime.test_eviction import spans
from tests.support.fakes.broker import Broker
from tests.support.streams.port import Worker, place, record
from tests.support.streams.spans import AT_ONCE, SPANS, at
from tests.support.streams.toy import RESULT, SOURCE, STAGE, Counter


def fed(pipeline: LocalPipeline, records: list[ConsumerRecord]) -> list[ProducerRecord]:
    return [out for one in records for out in pipeline.feed(one)] + pipeline.flush()


def results(outs: list[ProducerRecord]) -> dict[str, list[int]]:
    return {out.key: orjson.loads(out.value or b"") for out in outs if out.topic == RESULT}


def test_an_operator_that_fails_is_as_before_the_record() -> None:
    records = [record(0, 1), record(1, b'{"n":9,"boom":1}'), record(2, 4), record(3, 1, "b")]
    pipeline = LocalPipeline([STAGE], "t.")
    outs = fed(pipeline, records)
    assert results(outs) == {"a": [2, 5], "b": [1, 1]}
    (letter,) = [orjson.loads(out.value or b"") for out in outs if out.topic == "dead-letters"]
    assert (letter["reason"], letter["offset"], letter["error"]) == ("operator", 1, "RuntimeError: boom")
    assert pipeline.happened[f"dead_letter {SOURCE} operator"] == 1


def test_also_long_after_its_state_was_last_stored() -> None:
    count = 3 * STORED_EVERY + 7
    records = [record(n, 1) for n in range(count)]
    records.insert(5 * STORED_EVERY // 2, record(9999, b'{"n":9,"boom":1}'))
    records.insert(3 * STORED_EVERY, record(9999, b'{"m":1}'))
    assert results(fed(LocalPipeline([STAGE], "t."), records)) == {"a": [count, count]}


def test_an_operator_that_cannot_begin() -> None:
    def build(key: str, snapshot: Snapshot | None) -> Counter:
        if key == "a":
            raise RuntimeError("no")
        return Counter(key, snapshot)

    outs = fed(
        LocalPipeline([Stage(name="toy", source=SOURCE, build=build)]), [record(0, 1), record(1, 1, "b")]
    )
    assert results(outs) == {"b": [1, 1]}
    assert [orjson.loads(out.value or b"")["reason"] for out in outs if out.topic == "dead-letters"] == [
        "operator"
    ]


def test_an_operator_that_cannot_settle_or_close_costs_its_key_alone() -> None:
    class Unwell(Counter):
        def flush(self) -> list[Emission]:
            if self._key == "a" and self._state["count"]:
                raise RuntimeError("flush")
            return super().flush()

    pipeline = LocalPipeline([Stage(name="toy", source=SOURCE, build=Unwell)])
    outs = fed(pipeline, [record(0, 1), record(1, 1, "b"), record(2, 1, "b")]) + pipeline.close()
    assert results(outs) == {"b": [2, 2]}
    assert pipeline.happened["state_reset"] == 1


def test_a_key_that_leaves_and_comes_back_is_the_same_as_in_a_worker() -> None:
    pipeline = LocalPipeline([SPANS])
    outs = fed(
        pipeline, [at(0, 0, "back"), *(at(n, n * 10, "here") for n in range(1, 40)), at(40, 400, "back")]
    )
    assert {("back", 0, 1), ("back", 40, 1)} <= spans(outs, AT_ONCE)
    assert pipeline.happened["state_evicted"] == 1


FORWARD = Stage(name="pods", source="pods", build=lambda uid, _: PodForwarder(uid), stateless=True)


async def test_a_stateless_stage_keeps_nothing() -> None:
    """And answers again to what is read again, as it did before."""
    pods = [
        ConsumerRecord(
            "pods", 0, n, f"p{n}", encode(Pod(uid=f"p{n}", name="x", node="a", phase="Running")), n
        )
        for n in range(5)
    ]
    bad = ConsumerRecord("pods", 0, 5, "p5", b"rubbish", 5)
    worker = Worker(Broker(), stage=FORWARD)
    await worker.commit(*pods, bad)
    broker = worker.port.broker
    assert broker.changelog == {}
    assert worker.task._operators == {}
    assert broker.committed == {place(0, "pods"): 6}
    assert [out.topic for out in broker.outputs] == ["pod-parts", "insight-parts"] * 5 + ["dead-letters"]
    assert fed(LocalPipeline([FORWARD], "t."), [*pods, bad]) == broker.outputs
    first = list(broker.outputs)
    broker.committed.clear()
    again = Worker(broker, stage=FORWARD)
    await again.commit(*pods, bad)
    assert broker.outputs[len(first) :] == first
