"""Spoils the samples of a clean trace in ways that the field does, and says how often."""

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import orjson

from bench.cluster_trace import START_MS
from dutycycle.contract.trace import TraceRecord

Records = list[TraceRecord]
HOUR_S = 3600


def second_of(one: TraceRecord) -> int:
    """The second of the trace that a sample is of; whole ticks only."""
    return ((one.ts_ms or 0) - START_MS) // 1000


def is_sample(one: TraceRecord, topic: str, node: str) -> bool:
    """Whether this is a sample of ``node`` on ``topic``, which is without prefix."""
    return one.topic.endswith(topic) and one.key == node


def changed(one: TraceRecord, **fields: Any) -> TraceRecord:
    """The sample with other fields; its Kafka timestamp follows ``ts_ms``."""
    plain = orjson.loads(one.payload or b"") | fields
    return replace(one, payload=orjson.dumps(plain), ts_ms=plain["ts_ms"])


def shifted(one: TraceRecord, seconds: int) -> TraceRecord:
    """The sample as a collector with a wrong clock would have sent it."""
    return changed(one, ts_ms=(one.ts_ms or 0) + 1000 * seconds)


def repeated(records: Records, node: str, share: float, chance: random.Random) -> tuple[Records, int]:
    """A share of a node's GPU samples comes twice, the second time up to 20 s later; how many."""
    copies = [
        (second_of(one) + chance.randint(0, 20), one)
        for one in records
        if is_sample(one, "nvml-samples", node) and chance.random() < share
    ]
    return inserted(records, copies), len(copies)


def delayed(records: Records, node: str, seconds: Iterable[int], by_s: int) -> tuple[Records, int]:
    """The node's GPU samples of these seconds arrive ``by_s`` later; how many."""
    late = set(seconds)
    kept: Records = []
    moved: list[tuple[int, TraceRecord]] = []
    for one in records:
        if is_sample(one, "nvml-samples", node) and second_of(one) in late:
            moved.append((second_of(one) + by_s, one))
        else:
            kept.append(one)
    return inserted(kept, moved), len(moved)


def jumped(records: Records, node: str, seconds: range) -> Records:
    """The clock of the node's GPU collector is an hour ahead for these seconds, and then right again."""
    return [
        shifted(one, HOUR_S) if is_sample(one, "nvml-samples", node) and second_of(one) in seconds else one
        for one in records
    ]


def claimed_by_another(records: Records, node: str) -> tuple[Records, int]:
    """A second collector claims the node: half a second after each tick one of its own, with its own seq."""
    both: Records = []
    count = 0
    for one in records:
        both.append(one)
        if is_sample(one, "nvml-samples", node):
            other = (one.ts_ms or 0) + 500
            both.append(changed(one, collector="another", ts_ms=other, seq=count))
            count += 1
    return both, count


def asleep(records: Records, since: int) -> Records:
    """Everything from this second on happens an hour later: the machines were suspended."""
    return [_an_hour_later(one) if second_of(one) >= since else one for one in records]


def _an_hour_later(one: TraceRecord) -> TraceRecord:
    if one.topic.endswith("-samples"):
        return shifted(one, HOUR_S)
    return replace(one, ts_ms=(one.ts_ms or 0) + 1000 * HOUR_S)


def without_pods(records: Records, node: str, seconds: range) -> Records:
    """The node's pod uses nothing, and its cgroup is not seen, for these seconds."""
    return [_alone(one) if one.key == node and second_of(one) in seconds else one for one in records]


def _alone(one: TraceRecord) -> TraceRecord:
    plain = orjson.loads(one.payload or b"")
    if "pods" in plain:
        return changed(one, pods=[])
    return changed(one, gpus=[gpu | {"processes": []} for gpu in plain["gpus"]])


def inserted(records: Records, more: Iterable[tuple[int, TraceRecord]]) -> Records:
    """``more`` in their places: each after all records up to that second."""
    waiting = sorted(more, key=lambda one: one[0])
    merged: Records = []
    for one in records:
        while waiting and waiting[0][0] < second_of(one):
            merged.append(waiting.pop(0)[1])
        merged.append(one)
    return merged + [one for _, one in waiting]
