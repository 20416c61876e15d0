"""The peaks of a node by day: what its GPUs and its host needed, however the log is cut."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.operators.columns.cgroup import CgroupReader
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.operators.peaks.node import DAY_MS
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import cgroup, gpu, nvml, record
from tests.support.streams.emitted import plain_of

DAY = 1_700_000_000_000 // DAY_MS * DAY_MS + DAY_MS


def node(source: str = "nvml") -> NodeOperator:
    reader = NvmlReader("a") if source == "nvml" else CgroupReader()
    return NodeOperator(NodeConfig(topic=f"{source}-samples", source=source), "a", reader)


def fed(operator: NodeOperator, samples: list[dict[str, Any]], source: str = "nvml") -> list[dict[str, Any]]:
    """What is said of the node, sample after sample."""
    taken = [operator.update(record(f"{source}-samples", "a", one)) for one in samples]
    return plain_of([out for outs in taken for out in outs], "node-peaks")


def tick(seq: int, ts_ms: int, *utils: float | None, **more: Any) -> dict[str, Any]:
    gpus = [
        gpu(index, gpu_util_pct=util, mem_used_bytes=None if util is None else 2**30 * (index + 1), **more)
        for index, util in enumerate(utils)
    ]
    return nvml(seq, gpus) | {"ts_ms": ts_ms}


def test_a_day_has_the_most_of_any_gpu_and_of_all_together() -> None:
    samples = [tick(n, DAY + 1000 * n, 10.0 + n, 90.0 - n, power_w=100.0 + n) for n in range(50)]
    operator = node()
    fed(operator, samples)
    (found,) = plain_of(operator.close(), "node-peaks")
    assert {name: found[name] for name in ("node", "source", "day_ms", "first_ms", "last_ms", "samples")} == {
        "node": "a", "source": "nvml", "day_ms": DAY, "first_ms": DAY, "last_ms": DAY + 49_000, "samples": 50,
    }  # fmt: skip
    utils = [value for n in range(50) for value in (10.0 + n, 90.0 - n)]
    assert found["metrics"]["gpu_util_pct"] == {
        "max": 90, "mean": pytest.approx(np.mean(utils)), "at_ms": DAY,
        "p95": np.percentile(utils, 95, method="inverted_cdf"),
    }  # fmt: skip
    assert found["metrics"]["gpu_mem_used_bytes"]["max"] == 3 * 2**30
    power = found["metrics"]["gpu_power_w"]
    assert (power["max"], power["at_ms"]) == (298, DAY + 49_000)
    assert abs(power["p95"] - 294) <= 294 / 64
    assert found["gpus"]["a/1"]["gpu_util_pct"] == {"max": 90, "mean": 65.5, "at_ms": DAY}
    assert plain_of(operator.close(), "node-peaks") == [], "nothing new"


def test_what_was_not_measured_is_absent_and_a_gpu_that_is_unknown_adds_nothing() -> None:
    operator = node()
    fed(operator, [tick(0, DAY, None, 40.0), tick(1, DAY + 1000, None, 60.0)])
    (found,) = plain_of(operator.close(), "node-peaks")
    assert found["metrics"]["gpu_mem_used_bytes"]["max"] == 2 * 2**30
    assert (found["metrics"]["gpu_util_pct"]["mean"], "gpu_power_w" in found["metrics"]) == (50, False)
    assert "a/0" not in found["gpus"]


def test_each_minute_says_the_day_so_far_and_another_day_begins_anew() -> None:
    # The node's own moment is 36.7 s after the full minute.
    begin = DAY + DAY_MS - 90_000
    said = fed(node(), [tick(n, begin + 1000 * n, 80.0 if n == 3 else 5.0) for n in range(200)])
    assert [(one["day_ms"], one["samples"], one["metrics"]["gpu_util_pct"]["max"]) for one in said] == [
        (DAY, 7, 80), (DAY, 67, 80), (DAY, 90, 80), (DAY + DAY_MS, 37, 5), (DAY + DAY_MS, 97, 5),
    ]  # fmt: skip


def test_the_host_of_a_node() -> None:
    operator = node("cgroup")
    samples = [
        cgroup(n, {"cpu_util_pct": 100.0 * (n % 10), "mem_used_bytes": 2**30 + n}, [], ts_ms=DAY + 1000 * n)
        for n in range(40)
    ]
    fed(operator, samples, "cgroup")
    (found,) = plain_of(operator.close(), "node-peaks")
    assert found["metrics"]["cpu_util_pct"]["max"] == 900
    assert abs(found["metrics"]["cpu_util_pct"]["p95"] - 900) <= 900 / 64
    assert found["metrics"]["mem_used_bytes"]["max"] == 2**30 + 39
    assert found["gpus"] == {}


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(1, 40_000), st.floats(0, 100), st.floats(50, 700)), min_size=1, max_size=40
    ),
    st.sets(st.integers(0, 40)),
)
def test_restarts_change_nothing(steps: list[tuple[int, float, float]], cuts: set[int]) -> None:
    ts_ms, samples = DAY + DAY_MS - 200_000, []
    for seq, (step_ms, util, power) in enumerate(steps):
        ts_ms += step_ms
        samples.append(tick(seq, ts_ms, util, 100 - util, power_w=power))
    whole, cut = node(), node()
    expected, got = fed(whole, samples), []
    for at, one in enumerate(samples):
        if at in cuts:
            cut.flush()
            plain = from_bytes(to_bytes(cut.snapshot()))
            cut = node()
            cut.restore(plain)
        got += fed(cut, [one])
    assert got + plain_of(cut.close(), "node-peaks") == expected + plain_of(whole.close(), "node-peaks")
