"""Goal: whose a GPU is at one tick is what the ledger says; no energy counts twice."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.codec import decode, from_plain
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.ownership.now import uses_of_gpus
from dutycycle.contract.records.hours import UsageHour
from dutycycle.contract.records.samples import NvmlSample
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from tests.support.data.samples import gpu, nvml, process, record

PODS = st.sampled_from(["p", "q", None])
SLICES = [{"uuid": f"MIG-{n}", "mem_total_bytes": 10 * n, "mem_used_bytes": n} for n in (1, 2)]
PROCESS = st.fixed_dictionaries(
    {"pid": st.integers(1, 9)},
    optional={
        "pod_uid": st.sampled_from(["p", "q", "r"]),
        "gpu_util_pct": st.integers(0, 100),
        "mem_used_bytes": st.integers(0, 9),
    },
)
ALLOCATION = st.fixed_dictionaries(
    {"namespace": st.just("n"), "pod": st.sampled_from(["a", "b"])},
    optional={"pod_uid": st.sampled_from(["p", "q", "r"]), "shared": st.just(True),
              "gpu_util_pct": st.integers(0, 100), "mem_used_bytes": st.integers(0, 9),
              "mig": st.sampled_from(["MIG-1", "MIG-2", "MIG-3"])},
)  # fmt: skip
GPU = st.fixed_dictionaries(
    {"uuid": st.just("GPU-0"), "index": st.just(0)},
    optional={
        "gpu_util_pct": st.integers(0, 100), "mem_used_bytes": st.integers(0, 99), "mig": st.just(SLICES),
        "processes": st.lists(PROCESS, max_size=3, unique_by=lambda one: one["pid"]),
        "allocated": st.lists(ALLOCATION, max_size=3),
    },
)  # fmt: skip


@given(GPU)
def test_power_and_energy_of_one_tick_are_divided_in_the_same_way(plain: dict[str, Any]) -> None:
    """A gauge of power is told of the newest sample, and the ledger integrates it."""
    seen = plain | {"power_w": 100}
    sample = nvml(0, [seen])
    used = uses_of_gpus(from_plain(NvmlSample, sample, "nvml-samples"))["GPU-0"]
    assert sum(use.part or 0 for use in used) == pytest.approx(1) or sum(use.part or 0 for use in used) < 1
    operator = NodeOperator(NodeConfig(topic="nvml-samples", source="nvml"), "a", NvmlReader("a"))
    operator.update(record("nvml-samples", "a", sample))
    [hour] = [decode(UsageHour, out.value or b"", "usage") for out in operator.close()
              if isinstance(out, ProducerRecord) and out.topic == "usage"]  # fmt: skip
    joules = {row.pod_uid: row.energy_j for row in hour.gpus if row.pod_uid}
    assert {use.pod_uid: 100 * use.part for use in used if use.part is not None} == pytest.approx(joules)
    assert joules.keys() <= {use.pod_uid for use in used}


def given_to(pod: str, **more: Any) -> dict[str, Any]:
    return {"pod_uid": pod, "namespace": "n", "pod": pod, **more}


HALF = {"mem_total_bytes": 10}
MIG = [{"uuid": "MIG-1", "gpu_util_pct": 90, **HALF}, {"uuid": "MIG-2", "gpu_util_pct": 30, **HALF}]
SHARES = {
    "alone, and a slice of another": (
        {"mig": MIG, "processes": [process(1, "p", 40)], "allocated": [given_to("q", mig="MIG-1")]},
        {"p": None, "q": 0.75},
    ),
    "the GPU and a slice of it": (
        {"mig": MIG, "allocated": [given_to("p"), given_to("q", mig="MIG-1")]},
        {"p": 0.5, "q": 0.5},
    ),
    "alone": ({"processes": [process(1, "p", 40)]}, {"p": 1.0}),
    "by utilization": ({"processes": [process(1, "p", 60), process(2, "q", 20)]}, {"p": 0.75, "q": 0.25}),
    "evenly, while both wait": (
        {"processes": [process(1, "p", 0), process(2, "q", 0)]}, {"p": 0.5, "q": 0.5},
    ),
    "a stranger has the rest": (
        {"gpu_util_pct": 80, "processes": [process(1, "p", 60), process(2)]}, {"p": 0.75},
    ),
    "nobody knows": ({"processes": [process(1, "p"), process(2, "q", 20)]}, {"p": 0.5, "q": 0.5}),
    "given to one": ({"allocated": [given_to("p")]}, {"p": 1.0}),
    "given to two": ({"allocated": [given_to("p", shared=True), given_to("q", shared=True)]},
                     {"p": 0.5, "q": 0.5}),
    "each has its part": ({"gpu_util_pct": 40, "allocated": [given_to("p", gpu_util_pct=30),
                                                             given_to("q", gpu_util_pct=10)]},
                          {"p": 0.75, "q": 0.25}),
    "one part is not known": ({"gpu_util_pct": 40, "allocated": [given_to("p", gpu_util_pct=30),
                                                                 given_to("q")]}, {"p": 0.5, "q": 0.5}),
    "a pod without a uid has the rest": (
        {"gpu_util_pct": 40, "allocated": [
            given_to("p", gpu_util_pct=30), {"namespace": "n", "pod": "s", "gpu_util_pct": 10}]},
        {"p": 0.75},
    ),
    "slices": ({"mig": MIG, "allocated": [given_to("p", mig="MIG-1"), given_to("q", mig="MIG-2")]},
               {"p": 0.75, "q": 0.25}),
    "an unused slice has its part": ({"mig": MIG, "allocated": [given_to("p", mig="MIG-2")]}, {"p": 0.25}),
    "a slice and its process": ({"mig": MIG, "processes": [process(1, "p"), process(2, "q")],
                                 "allocated": [given_to("p", mig="MIG-1")]}, {"p": 0.75, "q": None}),
}  # fmt: skip


@pytest.mark.parametrize("case", SHARES.values(), ids=SHARES.keys())
def test_shares_of_energy(case: tuple[dict[str, Any], dict[str, float | None]]) -> None:
    fields, shares = case
    sample = from_plain(NvmlSample, nvml(0, [gpu(0, **fields)]), "nvml-samples")
    assert {use.pod_uid: use.part for use in uses_of_gpus(sample)["GPU-0"]} == shares
