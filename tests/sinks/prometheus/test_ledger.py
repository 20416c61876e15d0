"""The counters for Prometheus and the ledger count the same, each in its own way."""

from typing import Any

import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.hours import UsageHour
from dutycycle.contract.records.samples import NvmlSample
from sinks.prometheus.counters import NodeCounters
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from tests.support.data.samples import gpu, nvml, record

CONFIG = NodeConfig(topic="nvml-samples", source="nvml")
ALONE = [{"pid": 1, "pod_uid": "A", "gpu_util_pct": 70}]
SHARED = [{"pid": 1, "pod_uid": "A", "gpu_util_pct": 30}, {"pid": 2, "pod_uid": "B", "gpu_util_pct": 10}]
SLICES = [{"uuid": "m1", "mem_total_bytes": 30, "gpu_util_pct": 90},
          {"uuid": "m2", "mem_total_bytes": 10, "gpu_util_pct": 30}]  # fmt: skip
GIVEN = [{"pod_uid": "A", "namespace": "n", "pod": "a", "mig": "m1"},
         {"pod_uid": "B", "namespace": "n", "pod": "b", "mig": "m2"}]  # fmt: skip
GPUS: dict[str, dict[str, Any]] = {
    "alone": {"gpu_util_pct": 70, "processes": ALONE},
    "shared": {"gpu_util_pct": 40, "processes": SHARED},
    "slices": {"mig": SLICES, "allocated": GIVEN},
}


@pytest.mark.parametrize("name", GPUS)
def test_busy_time_and_energy_are_the_same(name: str) -> None:
    operator, counters = NodeOperator(CONFIG, "a", NvmlReader("a")), NodeCounters()
    outs = []
    times = [*range(10), *range(12, 20)]  # two ticks are missing
    for at, second in enumerate(times):
        source = record("nvml-samples", "a", nvml(second, [gpu(energy_j=50 * second**2, **GPUS[name])]), at)
        outs += operator.update(source)
        counters.add(decode(NvmlSample, source.value or b"", "nvml-samples"), 0, at)
    outs += operator.close()
    text = [one.value for one in outs if isinstance(one, ProducerRecord) and one.topic == "usage"][-1]
    rows = decode(UsageHour, text or b"", "usage").gpus
    for row in rows:
        counted = [one for (uid, *_), one in counters.pods.items() if uid == row.pod_uid]
        assert row.energy_j == pytest.approx(sum(one.energy_j or 0 for one in counted))
        if name != "slices":  # they divide a GPU in the ledger, and are counted one by one for Prometheus
            busy_s = sum(one.busy_s or 0 for one in counted)
            assert row.busy_s * 19 / 20 == pytest.approx(busy_s)  # the counters begin after the first tick
