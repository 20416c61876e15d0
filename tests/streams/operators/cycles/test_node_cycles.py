"""From a node's samples to its ``cycles`` records."""

from typing import Any

import numpy as np
import orjson
import pytest

from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.load import load
from streams.local import LocalPipeline
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.state.codec import from_bytes, to_bytes
from streams.topology import stages
from tests.support.data.samples import gpu, nvml, record
from tests.support.streams.emitted import plain_of

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


def cycles(seconds: int, restart_at: int = -1) -> list[dict[str, Any]]:
    """The records of a node; with a restart from its snapshot."""
    config = NodeConfig(topic="nvml-samples", source="nvml")
    node, records = NodeOperator(config, "a", NvmlReader("a")), []
    for second in range(seconds):
        if second == restart_at:
            plain = from_bytes(to_bytes(node.snapshot()))
            node = NodeOperator(config, "a", NvmlReader("a"))
            node.restore(plain)
        emissions = node.update(record("nvml-samples", "a", sample(second), second))
        records += plain_of(emissions, "cycles")
    return records


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


def steps_inside(seconds: int, period_s: float, begin: int = 0, **fields: Any) -> list[ConsumerRecord]:
    """A pod on a GPU whose utilization and power are flat, and whose tensor cores work in steps; from
    ``begin`` on the GPU says so."""
    chance = np.random.default_rng(3)
    records = []
    for second in range(seconds):
        fine = second - 1 + np.arange(1, 21) / 20
        works = float((fine / period_s % 1 < 0.75).mean())
        noise = chance.normal(0, 1.5, 3).tolist()
        inside = {
            "sm_active_pct": 97.0, "tensor_active_pct": max(8 + 50 * works + noise[0], 0.0),
            "dram_active_pct": 60 - 25 * works + noise[1],
        }  # fmt: skip
        one = gpu(
            0, gpu_util_pct=100, mem_used_bytes=60 * GIB, mem_total_bytes=80 * GIB, power_limit_w=700.0,
            power_w=610 + 4 * noise[2], processes=[{"pid": 7, "pod_uid": "p", "mem_used_bytes": 60 * GIB}],
            **(inside if second >= begin else {}), **fields,
        )  # fmt: skip
        records.append(record("nvml-samples", "a", nvml(second, [one]), second))
    return records


def outs(records: list[ConsumerRecord], topic: str) -> list[dict[str, Any]]:
    pipeline = LocalPipeline(stages(load({}, {})))
    emissions = [out for sample in records for out in pipeline.feed(sample)] + pipeline.close()
    return plain_of(emissions, topic)


@pytest.mark.slow
@pytest.mark.parametrize("period_s", [5.3, 12.0])
def test_steps_that_show_inside_of_the_gpu_alone_are_those_of_its_pod(period_s: float) -> None:
    records = steps_inside(300, period_s)
    last = outs(records, "cycles")[-1]["metrics"]
    assert set(last) == {"tensor_active_pct", "dram_active_pct"}
    assert last["tensor_active_pct"]["period_s"] == pytest.approx(period_s, rel=0.01)
    part = outs(records, "insight-parts")[-1]
    assert part["period_s"] == pytest.approx(period_s, rel=0.01)
    assert part["period_metric"] == "tensor_active_pct"
    assert outs(records, "insights")[-1]["kind"] == "training"
    told = outs(records, "node-parts")[-1]["gpus"]["GPU-0"]
    assert (told["cyclic"], told["period_s"]) == (True, last["tensor_active_pct"]["period_s"])


def test_steps_inside_of_a_gpu_of_several_pods_are_of_none() -> None:
    users = [{"pid": 7, "pod_uid": "p"}, {"pid": 8, "pod_uid": "q"}]
    records = steps_inside(200, 6.0)
    shared = [one.value or b"" for one in records]
    plain = [orjson.loads(one) for one in shared]
    for one in plain:
        one["gpus"][0]["processes"] = users
    records = [record("nvml-samples", "a", one, at) for at, one in enumerate(plain)]
    assert outs(records, "cycles")
    assert not any("period_s" in part for part in outs(records, "insight-parts"))


def test_what_was_never_measured_has_no_room_and_begins_with_its_first_value() -> None:
    node = NodeOperator(NodeConfig(topic="nvml-samples", source="nvml"), "a", NvmlReader("a"))
    widths = []
    for one in steps_inside(120, 6.0, begin=41):
        node.update(one)
        widths.append(node.snapshot()["analysis"]["cycles"]["ticks"]["n"])
    assert widths[40] + 2 == widths[41] == widths[-1]
    assert steps_begin_alike(41) == steps_begin_alike(0)


def steps_begin_alike(begin: int) -> list[float]:
    """The periods that are told of steps that the GPU tells from ``begin`` on, by the end."""
    last = outs(steps_inside(300, 6.0, begin), "cycles")[-1]["metrics"]
    return [round(last[name]["period_s"], 1) for name in ("tensor_active_pct", "dram_active_pct")]
