"""From a node's samples to its ``cycles`` records."""

from typing import Any

import orjson
import pytest

from dutycycle.contract.log import ProducerRecord
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import gpu, nvml, record

STEP_S = 0.7
GIB = 1 << 30


def sample(second: int) -> dict[str, Any]:
    """A GPU that one pod trains on in steps, and whose memory goes up and down every 20 s."""
    at = [second - 1 + (k + 1) / 25 for k in range(25)]
    util = [[round(1000 * (one - second)), 90 if one / STEP_S % 1 < 0.6 else 5] for one in at]
    process = {"pid": 7, "pod_uid": "p", "mem_used_bytes": GIB}
    memory = (40 + 4 * (second % 20 < 8)) * GIB
    one = gpu(0, gpu_util_pct=util[-1][1], util_burst=util, mem_used_bytes=memory, processes=[process])
    return nvml(second, [one])


def cycles(seconds: int, restart_at: int = -1, name: str = "a") -> list[dict[str, Any]]:
    """The records of a node; with a restart from its snapshot."""
    config = NodeConfig(topic="nvml-samples", source="nvml")
    node, found = NodeOperator(config, name, NvmlReader(name)), []
    for second in range(seconds):
        if second == restart_at:
            plain = from_bytes(to_bytes(node.snapshot()))
            node = NodeOperator(config, name, NvmlReader(name))
            node.restore(plain)
        plain = sample(second) | {"node": name}
        emissions = node.update(record("nvml-samples", name, plain, second))
        found += [one for one in emissions if isinstance(one, ProducerRecord) and one.topic == "cycles"]
    return [orjson.loads(one.value or b"") for one in found]


def test_steps_and_memory_of_a_gpu_and_the_steps_of_its_pod() -> None:
    newest = {one["subject"]["kind"]: one["metrics"] for one in cycles(240)}
    found = {(kind, name): one for kind, metrics in newest.items() for name, one in metrics.items()}
    assert set(found) == {("gpu", "gpu_util_pct"), ("pod", "gpu_util_pct"), ("gpu", "mem_used_bytes")}
    assert found["gpu", "gpu_util_pct"]["period_s"] == pytest.approx(STEP_S, rel=0.005)
    assert found["pod", "gpu_util_pct"]["period_s"] == pytest.approx(STEP_S, rel=0.005)
    assert found["gpu", "mem_used_bytes"]["period_s"] == pytest.approx(20, rel=0.005)


@pytest.mark.parametrize("restart_at", [7, 33, 95])
def test_a_restart_leaves_no_trace(restart_at: int) -> None:
    assert cycles(130, restart_at) == cycles(130)


@pytest.mark.parametrize("name", ["a", "b", "node-3", "gpu-worker-17", "x" * 60, "9", "N_7", "z.example"])
def test_what_is_found_does_not_depend_on_the_name_of_the_node(name: str) -> None:
    expected = [(one["ts_ms"], one["metrics"]) for one in cycles(130)]
    assert [(one["ts_ms"], one["metrics"]) for one in cycles(130, name=name)] == expected
