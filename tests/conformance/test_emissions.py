"""Conformance of every stage: what it emits. Once, in records of its topics, and nothing of bad input."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import reduce
from operator import getitem
from typing import Any

import orjson
import pytest

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.deadletter import Reason
from dutycycle.contract.topics import TOPICS
from dutycycle.telemetry.events import CLOCK_JUMP, SAMPLE_LATE
from streams.operators.base import CountedEvent, Operator, Stage
from tests.support.streams.conformance_feed import (
    SMALL,
    STAGES,
    every_stage,
    feed,
    inputs,
    keys_of,
    outs,
    resumed,
    run,
    stored,
)

_NODE = {"window-aggregates", "trends", "cycles", "pod-parts", "insight-parts"}
SAYS = {
    "nvml": _NODE | {"node-parts"},
    "cgroup": _NODE - {"cycles"},
    "cuda": {"window-aggregates", "pod-parts"},
    "processes": {"insight-parts"},
    "pods": {"pod-parts", "insight-parts"},
    "health": {"gpu-health"},
    "pod-peaks": {"pod-peaks", "job-parts"},
    "job-peaks": {"job-peaks"},
    "insights": {"insights", "pod-insights", "job-insight-parts"},
    "job-insights": {"insights", "job-insights"},
}
"""The topics that each stage writes to at least, fed like this, so that there is something to check."""
KEYS: dict[str, Callable[[Any], str]] = {
    "subject": lambda of: of.subject.key,
    "subject/source": lambda of: f"{of.subject.key}/{of.source}",
    "pod uid": lambda of: getattr(of, "uid", None) or of.pod.uid,
    "job uid": lambda of: of.job.uid,
    "node": lambda of: of.node,
}
"""The key of a record, by what ``dutycycle.contract.topics`` calls it."""
HAPPENED = {name: {SAMPLE_LATE.name, CLOCK_JUMP.name} for name in ("nvml", "cgroup", "cuda")}
"""The events that each stage counts."""


@every_stage
def test_what_is_sent_is_a_record_of_its_topic_under_its_key(stage: Stage) -> None:
    key = keys_of(stage)[0]
    operator = stage.build(key, None)
    emissions = run(operator, inputs(stage, key)) + operator.flush() + operator.close()
    for out in outs(emissions):
        topic = TOPICS[out.topic]
        assert "streams" in topic.writer
        assert out.key == KEYS[topic.key](decode(topic.record, out.value or b"", out.topic))
        assert len(out.value or b"") <= topic.max_bytes
        assert out.ts_ms >= 0
    assert {out.topic for out in outs(emissions)} >= SAYS[stage.name]
    events = {one.event for one in emissions if isinstance(one, CountedEvent)}
    assert events == HAPPENED.get(stage.name, set())


def test_each_stage_takes_what_the_others_send() -> None:
    refused = [orjson.loads(one.value or b"") for one in feed(SMALL).get("dead-letters", [])]
    assert refused == []
    assert {stage.source for stage in STAGES} <= feed(SMALL).keys()


@every_stage
def test_what_is_settled_is_settled(stage: Stage) -> None:
    key = keys_of(stage)[0]
    operator = stage.build(key, None)
    for one in inputs(stage, key):
        operator.update(one)
        operator.flush()
        assert operator.flush() == []


@every_stage
@pytest.mark.parametrize("seen", [0, 1, None], ids=["nothing", "one record", "all"])
def test_after_close_there_is_nothing(stage: Stage, seen: int | None) -> None:
    key = keys_of(stage)[0]
    operator = stage.build(key, None)
    run(operator, inputs(stage, key)[:seen])
    closed = operator.close()
    assert operator.flush() == []
    assert operator.close() == []
    assert seen != 0 or closed == []


@every_stage
@pytest.mark.parametrize("last", [1, 5])
def test_what_comes_again_tells_nothing_new(stage: Stage, last: int) -> None:
    """Each record twice, or each five records: what is emitted, and the state, are those of once."""
    key = keys_of(stage)[0]
    records = inputs(stage, key)
    once, twice = stage.build(key, None), stage.build(key, None)
    for at in range(0, len(records), last):
        part = records[at : at + last]
        emissions = _updated(once, part)
        assert _updated(twice, part) == emissions
        assert _updated(twice, part) == (emissions if stage.stateless else [])
        flushed = outs(once.flush())
        assert outs(twice.flush()) == flushed
        assert _updated(twice, part) == (emissions if stage.stateless else [])
        assert set(outs(twice.flush())) <= set(flushed), "sent again, or not at all"
    assert stored(twice) == stored(once)


def _updated(operator: Operator, records: list[ConsumerRecord]) -> list[ProducerRecord]:
    return [out for one in records for out in outs(operator.update(one))]


BAD: list[tuple[str, bytes | None, Reason]] = [
    ("garbage", b"\xff\x00", Reason.DECODE),
    ("nothing", b"", Reason.DECODE),
    ("a tombstone", None, Reason.DECODE),
    ("no object", b"[1]", Reason.DECODE),
    ("NaN", b'{"v":1,"node":NaN}', Reason.DECODE),
    ("no version", b"{}", Reason.SCHEMA),
    ("a version as text", b'{"v":"1"}', Reason.SCHEMA),
    ("a version to come", b'{"v":2}', Reason.VERSION),
]


@every_stage
def test_a_bad_record_is_refused_and_changes_nothing(stage: Stage) -> None:
    key, another = keys_of(stage)[:2]
    records, misplaced = inputs(stage, key), inputs(stage, another)[0].value
    half = len(records) // 2
    whole, operator = stage.build(key, None), stage.build(key, None)
    assert run(operator, records[:half]) == run(whole, records[:half])
    before = stored(operator)
    for goal, value, reason in [*BAD, ("another key's", misplaced, Reason.KEY)]:
        if value is None and TOPICS[stage.source].cleanup == "compact":
            continue  # there it says that the key is gone
        with pytest.raises(DecodeError) as caught:
            operator.update(ConsumerRecord(stage.source, 0, 0, key, value, 0))
        assert caught.value.reason is reason, goal
        assert stored(operator) == before, goal
    assert run(operator, records[half:]) == run(whole, records[half:])


@every_stage
def test_a_damaged_field_is_refused_or_does_no_harm(stage: Stage) -> None:
    """Any field, at any depth: ``DecodeError`` and nothing changed, or it is taken; never another error."""
    key = keys_of(stage)[0]
    records = [one for one in inputs(stage, key) if one.value is not None]
    operator = stage.build(key, None)
    run(operator, records[:-1])
    before, refused = stored(operator), 0
    for value in _damaged(orjson.loads(records[-1].value or b"")):
        try:
            operator.update(ConsumerRecord(stage.source, 0, 0, key, orjson.dumps(value), 0))
        except DecodeError:
            refused += 1
            assert stored(operator) == before, value
        else:
            operator = resumed(stage, key, before)
    assert refused > 10
    assert operator.update(records[-1]) == resumed(stage, key, before).update(records[-1])


ODD: list[Any] = [{"odd": [{}]}, [[]], "odd", -1, True]


def _damaged(plain: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """``plain`` with one field of another kind, or without it, for each field."""
    for *parents, last in _paths(plain):
        for value in ODD:
            damaged = deepcopy(plain)
            reduce(getitem, parents, damaged)[last] = value
            yield damaged
        damaged = deepcopy(plain)
        del reduce(getitem, parents, damaged)[last]
        yield damaged


def _paths(plain: Any) -> Iterator[tuple[Any, ...]]:
    """Where a value lies: names of fields, and of each list its last place."""
    if isinstance(plain, dict):
        places = list(plain.items())
    else:
        places = list(enumerate(plain))[-1:] if isinstance(plain, list) else []
    for name, value in places:
        yield (name,)
        yield from ((name, *below) for below in _paths(value))
