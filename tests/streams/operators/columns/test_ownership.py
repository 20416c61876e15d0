"""Goal: a pod's figure on a GPU says where it is from: measured, allocated, unknown. Unknown is not idle."""

from itertools import permutations
from typing import Any

import orjson
import pytest

from dutycycle.contract.codec import DecodeError, from_plain
from dutycycle.contract.ownership.words import Holder, holders, merged
from dutycycle.contract.records.samples import Gpu
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from streams.state.codec import from_bytes, to_bytes
from tests.support.data.samples import gpu, nvml, process, record

USED = {"gpu_util_pct": 70, "mem_used_bytes": 9, "mem_copy_util_pct": 30}


def given(pod: str, **more: Any) -> dict[str, Any]:
    return {"pod_uid": pod, "namespace": "team", "pod": f"name-of-{pod}", "container": "main", **more}


NAMELESS = {"namespace": "team", "pod": "stranger", "container": "main"}
BUSY = [{"uuid": "MIG-1", "gpu_util_pct": 60}, {"uuid": "MIG-2", "gpu_util_pct": 80}]
SLICES = [{"uuid": "MIG-1", "gpu_util_pct": 40, "mem_used_bytes": 3}, {"uuid": "MIG-2", "mem_used_bytes": 4}]

Found = dict[str, tuple[str, float | None, float | None]]
CASES: list[tuple[str, dict[str, Any], Found]] = [
    (
        "its own process",
        gpu(0, **USED, processes=[process(7, "p", 20, mem_used_bytes=5)]),
        {"p": ("measured", 20, 5)},
    ),
    (
        "its own process, and the GPU was given to it: still measured",
        gpu(0, **USED, processes=[process(7, "p", 20, mem_used_bytes=5)], allocated=[given("p")]),
        {"p": ("measured", 20, 5)},
    ),
    (
        "no process can be seen, and it has the GPU for itself",
        gpu(0, **USED, allocated=[given("p")]),
        {"p": ("allocated", 70, 9)},
    ),
    (
        "a process of unknown owner on a GPU of its own",
        gpu(0, **USED, processes=[process(7, gpu_util_pct=20)], allocated=[given("p")]),
        {"p": ("allocated", 70, 9)},
    ),
    (
        "two containers of one pod have it: still one pod",
        gpu(0, **USED, allocated=[given("p"), given("p", container="side")]),
        {"p": ("allocated", 70, 9)},
    ),
    (
        "time slices: who of the two it was cannot be known",
        gpu(0, **USED, allocated=[given("p", shared=True), given("q", shared=True)]),
        {"p": ("unknown", None, None), "q": ("unknown", None, None)},
    ),
    (
        "one time slice taken: the others may be used outside Kubernetes",
        gpu(0, **USED, allocated=[given("p", shared=True)]),
        {"p": ("unknown", None, None)},
    ),
    (
        "a second pod of which only the name is known shares it all the same",
        gpu(0, **USED, allocated=[given("p"), NAMELESS]),
        {"p": ("unknown", None, None)},
    ),
    (
        "of two that share, one has a process that can be seen",
        gpu(0, **USED, processes=[process(7, "q", 20)],
            allocated=[given("p", shared=True), given("q", shared=True)]),
        {"q": ("measured", 20, None), "p": ("unknown", None, None)},
    ),
    (
        "somebody else's process runs on its GPU",
        gpu(0, **USED, processes=[process(7, "q", 70)], allocated=[given("p")]),
        {"q": ("measured", 70, None), "p": ("unknown", None, None)},
    ),
    (
        "slices of one GPU, each its pod's own",
        gpu(0, mig=SLICES, allocated=[given("p", mig="MIG-1"), given("q", mig="MIG-2")]),
        {"p": ("allocated", 40, 3), "q": ("allocated", None, 4)},
    ),
    (
        "a slice of its own beside another pod's process",
        gpu(0, mig=SLICES, processes=[process(7, "q", mem_used_bytes=1)],
            allocated=[given("p", mig="MIG-1")]),
        {"q": ("measured", None, 1), "p": ("allocated", 40, 3)},
    ),
    (
        "a process on a slice, which no driver counts: it has the slice to itself",
        gpu(0, mig=SLICES, processes=[process(7, "p", mem_used_bytes=1)],
            allocated=[given("p", mig="MIG-1")]),
        {"p": ("measured", 40, 1)},
    ),
    (
        "processes on two slices, which no driver counts: the busier one",
        gpu(0, mig=BUSY, processes=[process(7, "p", mem_used_bytes=1)],
            allocated=[given("p", mig="MIG-1"), given("p", mig="MIG-2")]),
        {"p": ("measured", 80, 1)},
    ),
    (
        "two slices of one pod: the busier one, and the sum of memory",
        gpu(0, mig=SLICES, allocated=[given("p", mig="MIG-1"), given("p", mig="MIG-2")]),
        {"p": ("allocated", 40, 7)},
    ),
    (
        "a slice that is not there",
        gpu(0, mig=SLICES, allocated=[given("p", mig="MIG-9")]),
        {"p": ("unknown", None, None)},
    ),
    (
        "a slice of a GPU whose slices cannot be seen",
        gpu(0, **USED, allocated=[given("p", mig="MIG-1")]),
        {"p": ("unknown", None, None)},
    ),
    ("nobody was given it", gpu(0, **USED, allocated=[]), {}),
    ("only a name is known", gpu(0, **USED, allocated=[NAMELESS]), {}),
]  # fmt: skip


def operator() -> NodeOperator:
    return NodeOperator(NodeConfig(topic="nvml-samples", source="nvml"), "a", NvmlReader("a"))


def parts(node: NodeOperator) -> dict[str, dict[str, Any]]:
    return {out.key: orjson.loads(out.value) for out in node.flush() if out.topic == "pod-parts"}  # type: ignore[union-attr, arg-type]  # only outs


@pytest.mark.parametrize(("goal", "seen", "expected"), CASES, ids=[case[0] for case in CASES])
def test_origin(goal: str, seen: dict[str, Any], expected: Found) -> None:
    node = operator()
    node.update(record("nvml-samples", "a", nvml(1, [seen])))
    found: Found = {}
    for uid, part in parts(node).items():
        figures = part["gpus"].get("a/0", {})
        util, memory = (figures.get(name, {}).get("max") for name in ("gpu_util_pct", "mem_used_bytes"))
        found[uid] = (part["attribution"]["a/0"], util, memory)
    assert found == expected


def test_a_burst_lifts_the_peak_of_a_pod_that_was_given_the_gpu() -> None:
    node = operator()
    seen = gpu(0, **USED, util_burst=[[-5, 99]], allocated=[given("p")])
    node.update(record("nvml-samples", "a", nvml(1, [seen])))
    assert parts(node)["p"]["gpus"]["a/0"]["gpu_util_pct"]["max"] == 99


def test_a_burst_of_a_gpu_that_pods_share_is_of_none_of_them() -> None:
    node = operator()
    shares = [process(7, "p", 20), process(8, "q", 30)]
    node.update(
        record("nvml-samples", "a", nvml(1, [gpu(0, **USED, util_burst=[[-5, 99]], processes=shares)]))
    )
    found = {uid: part["gpus"]["a/0"]["gpu_util_pct"]["max"] for uid, part in parts(node).items()}
    assert found == {"p": 20, "q": 30}


TICKS = {
    "measured": gpu(0, **USED, processes=[process(7, "p", 20)]),
    "allocated": gpu(0, **USED, allocated=[given("p")]),
    "unknown": gpu(0, **USED, allocated=[given("p", shared=True)]),
}


@pytest.mark.parametrize("order", [*permutations(TICKS, 2), ("measured", "unknown", "allocated")])
def test_partly_allocated_is_not_measured_whatever_came_first(order: tuple[str, ...]) -> None:
    node = operator()
    for seq, word in enumerate(order, 1):
        node.update(record("nvml-samples", "a", nvml(seq, [TICKS[word]])))
        again = operator()
        again.restore(from_bytes(to_bytes(node.snapshot())))
        node = again
    expected = "allocated" if "allocated" in order else "measured"
    assert parts(node)["p"]["attribution"] == {"a/0": expected}


def test_merging_does_not_mind_the_order() -> None:
    many = [{"a/0": "unknown"}, {"a/0": "measured", "b/1": "unknown"}, {"a/0": "allocated"}]
    assert {tuple(merged(order).items()) for order in permutations(many)} == {
        (("a/0", "allocated"), ("b/1", "unknown"))
    }


def test_holders_of_each_device() -> None:
    told = [given("p"), given("p", mig="MIG-1"), given("q", mig="MIG-1", shared=True), NAMELESS]
    found = list(holders(from_plain(Gpu, gpu(0, allocated=told), "nvml-samples").allocated or ()))
    assert found == [Holder("p", None, False), Holder("p", "MIG-1", False), Holder("q", "MIG-1", False)]


def test_a_bad_uid_names_its_field() -> None:
    with pytest.raises(DecodeError, match=r"gpus\[0\]\.allocated\[0\]\.pod_uid"):
        operator().update(record("nvml-samples", "a", nvml(1, [gpu(0, allocated=[given("")])])))
