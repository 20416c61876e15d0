"""What is found depends on the samples alone: not on the node's name, and not on when they were taken.

Two GPUs of a pod that waits and works in turn, one of which slowly fills its memory, and the pod's CPU.
"""

from functools import cache
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutycycle.contract.settings.groups import Settings
from streams.local import LocalPipeline
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.operators.trends.bank import TrendBank
from streams.topology import stages
from tests.support.data.samples import cgroup, gpu, nvml, record

NODE, UID = "<node>", "pod-1"
BEGIN_MS = 1_700_000_000_000
SECONDS = 200
GIB = 1 << 30
TIMES = ("ts_ms", "since_ms", "start_ms", "end_ms")
NAMES = st.from_regex(r"[a-z0-9]([-a-z0-9.]{0,40}[a-z0-9])?", fullmatch=True)

Records = list[tuple[str, Any]]


def samples(second: int, ts_ms: int) -> list[tuple[str, dict[str, Any]]]:
    """What the two collectors of the node say."""
    pod = {"pod_uid": UID, "namespace": "ml", "pod": "bert-0"}
    busy = second % 11 < 7 and second // 40 % 2 == 0
    noise = second * second % 7
    gpus = [
        gpu(
            index, gpu_util_pct=80 + noise if busy else 3 + index, power_w=90.0 + 200 * busy + noise,
            power_limit_w=400.0, mem_used_bytes=20 * GIB + index * second * GIB // 4 + noise,
            mem_total_bytes=80 * GIB, allocated=[pod],
        )
        for index in range(2)
    ]  # fmt: skip
    containers = [
        {"id": "c", "cpu_util_pct": 150.0 if busy else 340.0 + noise, "mem_used_bytes": 8 * GIB + noise}
    ]
    host = {"cpu_util_pct": 400.0, "cpu_count": 16, "mem_total_bytes": 256 * GIB, "mem_used_bytes": 30 * GIB}
    return [
        ("nvml-samples", nvml(second, gpus, ts_ms=ts_ms, node=NODE)),
        (
            "cgroup-samples",
            cgroup(second, host, [{"uid": UID, "containers": containers}], ts_ms=ts_ms, node=NODE),
        ),
    ]


def found(name: str, begin_ms: int) -> Records:
    """The cycles, trends and insights of a node of that name whose samples begin at ``begin_ms``, with times
    since then, and without its name."""
    pipeline, outs = LocalPipeline(stages(Settings())), []
    for second in range(SECONDS):
        for topic, plain in samples(second, begin_ms + 1000 * second):
            value = orjson.dumps(plain).replace(NODE.encode(), name.encode())
            outs += pipeline.feed(record(topic, name, value))
    outs += pipeline.close()
    said = [
        (out.topic, _since(orjson.loads((out.value or b"").replace(name.encode(), NODE.encode())), begin_ms))
        for out in outs
        if out.topic in ("cycles", "trends", "insights")
    ]
    assert {topic for topic, _ in said} == {"cycles", "trends", "insights"}
    return said


def _since(plain: Any, begin_ms: int) -> Any:
    if isinstance(plain, list):
        return [_since(part, begin_ms) for part in plain]
    if not isinstance(plain, dict):
        return plain
    return {
        key: value - begin_ms if key in TIMES else _since(value, begin_ms) for key, value in plain.items()
    }


@cache
def expected(begin_ms: int = BEGIN_MS) -> Records:
    return found("node-a", begin_ms)


def differences(said: Records, others: Records) -> list[tuple[Any, Any]]:
    """The first records that differ: all of them, compared by pytest, take minutes to print."""
    assert len(said) == len(others)
    return [pair for pair in zip(said, others, strict=True) if pair[0] != pair[1]][:1]


@pytest.mark.slow
@given(name=NAMES.filter(lambda name: name not in UID and name not in "bert-0"))
@settings(max_examples=6, deadline=None)
def test_of_a_node_of_any_name_the_same_is_said(name: str) -> None:
    node = f"node-{name}"  # no other word of a record is in it
    assert not differences(found(node, BEGIN_MS), expected())


@pytest.mark.slow
@given(minutes=st.integers(1, 200_000))
@settings(max_examples=3, deadline=None)
def test_whole_minutes_later_the_same_is_said(minutes: int) -> None:
    full_ms = BEGIN_MS - BEGIN_MS % 60_000
    assert not differences(found("node-a", full_ms + 60_000 * minutes), expected(full_ms))


@pytest.mark.slow
@given(later_ms=st.integers(1, 600_000))
@settings(max_examples=6, deadline=None)
def test_at_any_other_moment_cycles_and_trends_are_the_same(later_ms: int) -> None:
    """Insights are made of whole tens of seconds, which cut the samples elsewhere: of these the verdict."""
    said = found("node-a", BEGIN_MS + later_ms)
    for topic in ("cycles", "trends"):
        same, others = ([pair for pair in records if pair[0] == topic] for records in (said, expected()))
        assert not differences(same, others)
    verdicts = [
        next((plain["kind"], plain["bottleneck"]) for of, plain in reversed(records) if of == "insights")
        for records in (said, expected())
    ]
    assert verdicts[0] == verdicts[1]


def test_nodes_that_begin_at_other_moments_are_evaluated_at_other_moments() -> None:
    """Every ten seconds, after the first tick: so work is spread over nodes."""
    for later_ms in (0, 2_100, 7_900):
        node, evaluated = (
            NodeOperator(NodeConfig(topic="nvml-samples", source="nvml"), "a", NvmlReader("a")),
            set(),
        )
        for second in range(60):
            plain = samples(second, BEGIN_MS + later_ms + 1000 * second)[0][1] | {"node": "a"}
            outs = node.update(record("nvml-samples", "a", plain))
            evaluated |= {second % 10 for out in outs if getattr(out, "topic", "") == "trends"}
        assert evaluated == {1}


@pytest.mark.parametrize("wrong_ms", [-1, 0])
def test_a_tick_that_is_not_later_is_refused_with_its_own_time(wrong_ms: int) -> None:
    bank = TrendBank(1)
    bank.update(BEGIN_MS, np.zeros(1))
    with pytest.raises(ValueError, match=f"tick at {BEGIN_MS + wrong_ms} ms is not later than {BEGIN_MS} ms"):
        bank.update(BEGIN_MS + wrong_ms, np.zeros(1))
