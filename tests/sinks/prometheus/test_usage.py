"""Goal: whose a GPU's figures are is judged as in the streams; no energy counts twice."""

from math import isnan
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutycycle.contract.codec import from_plain
from dutycycle.contract.records.samples import Gpu
from sinks.prometheus.usage import uses
from streams.operators.columns.ownership import use_plan
from tests.support.data.samples import gpu

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
def test_as_in_the_streams(plain: dict[str, Any]) -> None:
    one = from_plain(Gpu, plain, "nvml-samples")
    plan = use_plan("a", [one])
    figures = {
        place: [None if isnan(figure) else figure for figure in use]
        for place, use in zip(plan.sources, plan.uses([one]).tolist(), strict=True)
    }
    mine = {use.pod_uid: use for use in uses(one)}
    assert {pod for pod, place in plan.attribution if place == "a/0"} == set(mine)
    for pod, use in mine.items():
        util, _, memory = figures.get((pod, "a/0"), [None, None, None])
        assert use.mem_bytes == memory
        if use.util_pct != util:  # of a process on a slice the streams know no utilization
            assert util is None
            assert one.mig
            assert use.attribution == "allocated"
        else:
            assert use.attribution in (plan.attribution[pod, "a/0"], "allocated")
    assert sum(use.share or 0 for use in mine.values()) <= 1.000001


def process(pod: str | None, util: float | None, pid: int = 1) -> dict[str, Any]:
    known = {} if util is None else {"gpu_util_pct": util}
    return {"pid": pid, **known, **({"pod_uid": pod} if pod else {})}


def given_to(pod: str, **more: Any) -> dict[str, Any]:
    return {"pod_uid": pod, "namespace": "n", "pod": pod, **more}


HALF = {"mem_total_bytes": 10}
MIG = [{"uuid": "MIG-1", "gpu_util_pct": 90, **HALF}, {"uuid": "MIG-2", "gpu_util_pct": 30, **HALF}]
SHARES = {
    "alone, and a slice of another": (
        {"mig": MIG, "processes": [process("p", 40)], "allocated": [given_to("q", mig="MIG-1")]},
        {"p": None, "q": 0.75},
    ),
    "the GPU and a slice of it": (
        {"mig": MIG, "allocated": [given_to("p"), given_to("q", mig="MIG-1")]},
        {"p": None, "q": 0.75},
    ),
    "alone": ({"processes": [process("p", 40)]}, {"p": 1.0}),
    "by utilization": ({"processes": [process("p", 60), process("q", 20, 2)]}, {"p": 0.75, "q": 0.25}),
    "evenly, while both wait": ({"processes": [process("p", 0), process("q", 0, 2)]}, {"p": 0.5, "q": 0.5}),
    "a stranger has his part": ({"processes": [process("p", 60), process(None, 20, 2)]}, {"p": 0.75}),
    "nobody knows": ({"processes": [process("p", None), process("q", 20, 2)]}, {"p": None, "q": None}),
    "given to one": ({"allocated": [given_to("p")]}, {"p": 1.0}),
    "given to two": ({"allocated": [given_to("p", shared=True), given_to("q", shared=True)]},
                     {"p": None, "q": None}),
    "slices": ({"mig": MIG, "allocated": [given_to("p", mig="MIG-1"), given_to("q", mig="MIG-2")]},
               {"p": 0.75, "q": 0.25}),
    "an unused slice has its part": ({"mig": MIG, "allocated": [given_to("p", mig="MIG-2")]}, {"p": 0.25}),
    "a slice and its process": ({"mig": MIG, "processes": [process("p", None), process("q", None, 2)],
                                 "allocated": [given_to("p", mig="MIG-1")]}, {"p": 0.75, "q": None}),
}  # fmt: skip


@pytest.mark.parametrize("case", SHARES.values(), ids=SHARES.keys())
def test_shares_of_energy(case: tuple[dict[str, Any], dict[str, float | None]]) -> None:
    fields, shares = case
    assert {use.pod_uid: use.share for use in uses(from_plain(Gpu, gpu(0, **fields), "x"))} == shares
