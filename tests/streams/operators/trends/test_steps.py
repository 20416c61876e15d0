"""Memory that climbs in exact steps: a cycle that foretells to the byte, until it ends."""

import numpy as np
import orjson
import pytest

from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.operators.rounding import tidied, tidy
from tests.support.data.samples import gpu, nvml, record
from tests.support.streams.emitted import plain_of

GIB = 1 << 30
TOTAL = 141 * GIB


@pytest.mark.slow
@pytest.mark.parametrize(("every_s", "step", "ends_s", "noise"), [
    (30, GIB, 1500, 0), (150, 3 * GIB // 8, 2400, 0), (60, GIB, 900, 0), (90, GIB // 2, 1200, 1e6),
])  # fmt: skip
def test_no_tick_is_refused_and_no_interval_is_absurd(
    every_s: int, step: int, ends_s: int, noise: float
) -> None:
    """The interval of the newest value reaches as far as the steps went. Two minutes after their end each
    interval holds what stays."""
    node = NodeOperator(NodeConfig(topic="nvml-samples", source="nvml"), "a", NvmlReader("a"))
    rng, widest = np.random.default_rng(5), 0.0
    for second in range(2000):
        memory = 8 * GIB + min(second, ends_s) // every_s * step + round(noise * rng.normal())
        one = gpu(0, gpu_util_pct=95, mem_used_bytes=memory, mem_total_bytes=TOTAL)
        outs = node.update(record("nvml-samples", "a", nvml(second, [one]), second))
        for trend in plain_of(outs, "trends"):
            forecast = trend["metrics"]["mem_used_bytes"]["forecast"]
            assert all(0 <= ahead["p95"] <= TOTAL for ahead in forecast)
            blends = [ahead for ahead in forecast if ahead["method"] == "blend"]
            widest = max([widest, *(ahead["p95"] - ahead["p05"] for ahead in blends)])
            if second > ends_s + 120:
                stays = 8 * GIB + ends_s // every_s * step
                for ahead in forecast:
                    assert ahead["p05"] - 3 * noise <= stays <= ahead["p95"] + 3 * noise
    assert 0 < widest < TOTAL / 2


@pytest.mark.parametrize(("value", "kind"), [
    (97.0, int), (-3.0, int), (0.5, float), (2.0**53 - 1, int), (2.0**53, float), (-(2.0**70), float),
])  # fmt: skip
def test_a_number_of_any_size_can_be_written(value: float, kind: type) -> None:
    for one in (tidy(value), *tidied(np.array([value]))):
        assert type(one) is kind
        assert orjson.loads(orjson.dumps(one)) == value
