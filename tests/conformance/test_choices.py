"""With some analyses off, what is left has the same bytes as with all on."""

from collections import defaultdict
from collections.abc import Collection, Iterator
from functools import cache
from itertools import groupby
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from bench.cluster_trace import START_MS, Shape
from dutycycle.contract.analyses import ANALYSES, choose, written_topics
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import SAMPLE_TOPICS, TOPICS
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.streams.conformance_feed import feed

Log = dict[str, list[tuple[str, bytes]]]
"""By topic: key and value of each record."""
SHAPE = Shape(nodes=2, gpus=2, seconds=250)
RETIRE_S = 75.0
_LEAVES_MS = START_MS + 90_000
_TOTALS: dict[str, tuple[str, ...]] = {"usage": ("totals",)}
LACKING: dict[str, dict[str, tuple[str, ...]]] = {
    "pod-parts": _TOTALS, "pod-peaks": _TOTALS, "job-parts": _TOTALS, "job-peaks": _TOTALS,
    "node-parts": {"usage": ("totals", "pods")},
}  # fmt: skip
"""The fields of other analyses that records carry beside their own, and lack where those are off."""
OF_GPUS = {"cycles": ("cyclic", "period_s"), "trends": ("slope_per_s",)}
"""The same of each GPU in a node's part."""


def needed(name: str) -> Iterator[str]:
    """An analysis, and all that it needs."""
    yield name
    for need in ANALYSES[name].needs:
        yield from needed(need)


CHOICES = st.sets(st.sampled_from(list(ANALYSES)), min_size=1).map(
    lambda names: choose({need for name in names for need in needed(name)})
)


@cache
def samples() -> list[ConsumerRecord]:
    """The input, in the order of time. Of the first pod nothing is measured after a while: it retires."""
    of = [one for topic, log in feed(SHAPE).items() if topic in SAMPLE_TOPICS for one in log]
    uid = next(one.key or "" for one in of if one.topic == "pods").encode()
    return [
        replace(one, value=(one.value or b"").replace(uid, b"the-next")) if one.ts_ms > _LEAVES_MS else one
        for one in sorted(of, key=lambda one: (one.ts_ms, one.offset, one.topic))
        if one.topic != "pods" or one.ts_ms <= _LEAVES_MS
    ]


@cache
def replayed(chosen: tuple[str, ...]) -> Log:
    """All that a replay sends."""
    pipeline = LocalPipeline(stages(Settings(analyses=chosen, retire=RETIRE_S)))
    log: Log = defaultdict(list)
    for outs in (*map(pipeline.feed, samples()), pipeline.close()):
        for out in outs:
            log[out.topic].append((out.key or "", out.value or b""))
    return dict(log)


def said(topic: str, log: Log, off: Collection[str]) -> Any:
    """What the records of a topic say beside the analyses that are off."""
    records = log.get(topic, [])
    if "insights" in off:  # a job's cycle and trends are made of the insights of its pods
        records = [(key, value) for key, value in records if not key.startswith("job/")]
    fields = [field for name, of in LACKING.get(topic, {}).items() if name in off for field in of]
    of_gpus = [field for name, of in OF_GPUS.items() if name in off for field in of]
    if not fields and not (topic == "node-parts" and of_gpus):
        return records
    plain = [(key, orjson.loads(value)) for key, value in records]
    for _, record in plain:
        for field in fields:
            record.pop(field, None)
        for gpu in record["gpus"].values() if topic == "node-parts" else ():
            for field in of_gpus:
                gpu.pop(field, None)
    return plain


def assessments(log: Log) -> dict[str, list[Any]]:
    """What was said of each pod beside anomalies: without those, nothing is said again because of them."""
    by_subject: dict[str, list[Any]] = defaultdict(list)
    for key, value in log.get("insights", []):
        record = orjson.loads(value)
        if key.startswith("pod/"):
            by_subject[key].append({name: record[name] for name in record.keys() - {"ts_ms", "anomalies"}})
    return {key: [one for one, _ in groupby(records)] for key, records in by_subject.items()}


@pytest.mark.slow
@given(chosen=CHOICES)
@settings(max_examples=min(10, settings().max_examples // 5))  # each is a replay
def test_what_is_left_is_the_same(chosen: tuple[str, ...]) -> None:
    whole, found, off = replayed(tuple(ANALYSES)), replayed(chosen), set(ANALYSES) - set(chosen)
    assert set(whole) >= {topic for of in ANALYSES.values() for topic in of.topics}  # something is compared
    assert set(found) <= {*written_topics(TOPICS, chosen)}
    for topic in written_topics(whole, chosen):
        if "anomalies" not in off or topic not in ANALYSES["insights"].topics[1:]:
            assert said(topic, found, off) == said(topic, whole, off), topic
    if "insights" in chosen:
        assert assessments(found) == assessments(whole)
    for topic, of in LACKING.items():  # absent, and not zero
        for _, value in found.get(topic, []):
            assert not any(orjson.loads(value).get(field) for name in of if name in off for field in of[name])
