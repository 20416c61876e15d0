"""What a node's part says of its GPUs: what windows, cycles and trends said, maxima for an hour."""

import random
from typing import Any

import pytest

from dutycycle.contract.log import ProducerRecord
from streams.operators.base import Emission
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.gpus import LOOK_BACK_MS, RecentMaximum
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import gpu, nvml, record
from tests.support.streams.emitted import plain_of

CONFIG = NodeConfig(topic="nvml-samples", source="nvml")


def operator() -> NodeOperator:
    return NodeOperator(CONFIG, "a", NvmlReader("a"))


def sample(second: int) -> dict[str, Any]:
    """GPU-0 is cyclic, GPU-1 climbs; what has no maximum of its own in the part moves as well."""
    busy = 95 if second % 8 < 4 else 2
    first = gpu(0, gpu_util_pct=busy, mem_copy_util_pct=busy / 2, power_w=7 * busy)
    return nvml(second, [first, gpu(1, gpu_util_pct=second / 20, temp_c=40 + second % 9)])


def fed(node: NodeOperator, seconds: range) -> list[Emission]:
    return [one for n in seconds for one in node.update(record("nvml-samples", "a", sample(n), n))]


def of_gpu(plain: list[dict[str, Any]], uuid: str, metric: str) -> list[dict[str, Any]]:
    of_it = [one["metrics"] for one in plain if one["subject"].get("gpu") == uuid]
    return [one[metric] for one in of_it if metric in one]


def test_a_part_says_what_the_derived_records_of_its_gpus_said() -> None:
    node = operator()
    emissions = fed(node, range(300)) + node.close()
    part = plain_of(emissions, "node-parts")[-1]
    windows, cycles, trends = (
        plain_of(emissions, name) for name in ("window-aggregates", "cycles", "trends")
    )
    assert (part["node"], part["ts_ms"]) == ("a", max(one["end_ms"] for one in windows))
    assert part["gpus"].keys() == {"GPU-0", "GPU-1"}
    for uuid, known in part["gpus"].items():
        of_it = [one["metrics"] for one in windows if one["subject"].get("gpu") == uuid]
        of_metric = {
            name: [one[name]["max"] for one in of_it if name in one]
            for name in ("gpu_util_pct", "mem_copy_util_pct")
        }
        assert known["maxima"] == {name: max(of) for name, of in of_metric.items() if of}
        cycle, trend = (of_gpu(many, uuid, "gpu_util_pct") for many in (cycles, trends))
        assert (known.get("cyclic"), known.get("period_s")) == (
            (cycle[-1]["cyclic"], cycle[-1].get("period_s")) if cycle else (None, None)
        )
        assert known.get("slope_per_s") == (trend[-1]["slope_per_s"] if trend else None)
    assert part["gpus"]["GPU-0"]["cyclic"] is True
    assert part["gpus"]["GPU-1"]["slope_per_s"] > 0


def test_a_gpu_whose_utilization_shows_no_cycle_has_that_of_its_power() -> None:
    node, noise = operator(), random.Random(4)  # noqa: S311 - not a secret
    for second in range(300):
        power = 300 if second % 13 < 8 else 90
        one = gpu(0, gpu_util_pct=noise.randint(90, 100), mem_copy_util_pct=40, power_w=power)
        node.update(record("nvml-samples", "a", nvml(second, [one]), second))
    known = plain_of(node.close(), "node-parts")[-1]["gpus"]["GPU-0"]
    assert (known["cyclic"], known["period_s"]) == (True, pytest.approx(13.0, rel=0.01))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_when_it_is_flushed_and_restarted_makes_no_difference(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - not a secret
    whole, pieces = operator(), operator()
    fed(whole, range(200))
    for second in range(200):
        fed(pieces, range(second, second + 1))
        if chance.random() < 0.2:
            pieces.flush()
        if chance.random() < 0.05:
            plain, pieces = to_bytes(pieces.snapshot()), operator()
            pieces.restore(from_bytes(plain))
    assert plain_of(whole.close(), "node-parts") == plain_of(pieces.close(), "node-parts")


def test_nothing_is_sent_unless_a_window_closed_and_a_gpu_that_is_gone_is_forgotten() -> None:
    node = operator()
    fed(node, range(5))
    assert plain_of(node.flush(), "node-parts") == []
    fed(node, range(5, 30))
    assert len(plain_of(node.flush(), "node-parts")) == 1
    assert plain_of(node.flush(), "node-parts") == []
    for second in range(30, 800):
        node.update(record("nvml-samples", "a", nvml(second, [gpu(0, gpu_util_pct=1)]), second))
    assert plain_of(node.flush(), "node-parts")[-1]["gpus"].keys() == {"GPU-0"}


def test_a_part_is_that_of_the_last_evaluation_whenever_it_is_sent() -> None:
    def sent_after(seconds: int) -> list[Emission]:
        node = operator()
        fed(node, range(seconds))
        return [out for out in node.flush() if isinstance(out, ProducerRecord) and out.topic == "node-parts"]

    evaluated, closed = sent_after(22), sent_after(31)
    assert closed == evaluated != []
    assert sent_after(32) != evaluated


def test_a_maximum_is_that_of_the_last_hour() -> None:
    chance = random.Random(1)  # noqa: S311 - not a secret
    recent, values = RecentMaximum(), [chance.uniform(0, 100) for _ in range(1000)]
    for at, value in enumerate(values):
        recent.add(10_000 * (at + 1), value)
        if at % 7 == 0:
            recent = RecentMaximum(recent.snapshot())
        assert recent.value == max(values[max(0, at + 1 - LOOK_BACK_MS // 10_000) : at + 1])
