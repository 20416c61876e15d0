"""An nvml sample in columns: what becomes of GPUs, slices, processes, bursts, and of bad values."""

import math
from typing import Any

import pytest

from contract.codec import DecodeError
from streams.operators.columns.nvml import NvmlReader
from streams.operators.columns.tick import Tick
from tests.support.data.samples import gpu, nvml


def read(gpus: list[dict[str, Any]]) -> Tick:
    return NvmlReader("a").read(nvml(1, gpus))


def values(tick: Tick) -> dict[tuple[str, str, str], float]:
    """What was measured, by (kind, member, metric)."""
    pairs = zip(tick.layout.series, tick.values.tolist(), strict=True)
    return {(one.kind, one.member, one.metric): value for one, value in pairs if not math.isnan(value)}


def tallies(tick: Tick) -> dict[tuple[str, str, str], tuple[float, float]]:
    """(value, high) by (pod uid, scope, metric)."""
    rows = zip(tick.layout.tallies, tick.tallies.tolist(), tick.highs.tolist(), strict=True)
    return {
        (one.pod_uid, one.scope, one.metric): (value, high)
        for one, value, high in rows
        if not math.isnan(high)
    }


def process(pid: int, pod: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"pid": pid, **({"pod_uid": pod} if pod else {}), **fields}


def test_absent_is_not_idle() -> None:
    found = values(read([gpu(0, gpu_util_pct=0, power_w=55.5), gpu(1)]))
    assert found == {("gpu", "GPU-0", "gpu_util_pct"): 0, ("gpu", "GPU-0", "power_w"): 55.5}


def test_null_counts_as_absent() -> None:
    assert values(read([gpu(0, gpu_util_pct=None)])) == {}


def test_a_slice_is_a_gpu_of_its_own() -> None:
    found = values(read([gpu(0, mig=[{"uuid": "MIG-1", "gpu_util_pct": 40, "mem_used_bytes": 7}])]))
    assert found == {("gpu", "MIG-1", "gpu_util_pct"): 40, ("gpu", "MIG-1", "mem_used_bytes"): 7}


PODS: list[tuple[str, list[dict[str, Any]], dict[str, float]]] = [
    (
        "two processes on one GPU add up",
        [gpu(0, processes=[process(1, "p", gpu_util_pct=30, mem_used_bytes=5),
                           process(2, "p", gpu_util_pct=20, mem_used_bytes=6)])],
        {"gpu_util_pct": 50, "gpu_mem_used_bytes": 11},
    ),
    (
        "no GPU is more than busy",
        [gpu(0, processes=[process(1, "p", gpu_util_pct=80), process(2, "p", gpu_util_pct=80)])],
        {"gpu_util_pct": 100},
    ),
    (
        "over GPUs: the busiest, and the sum of memory",
        [gpu(0, processes=[process(1, "p", gpu_util_pct=30, mem_used_bytes=5)]),
         gpu(1, processes=[process(2, "p", gpu_util_pct=90, mem_used_bytes=6)])],
        {"gpu_util_pct": 90, "gpu_mem_used_bytes": 11},
    ),
    (
        "alone on the GPU: the device tells what the processes cannot",
        [gpu(0, gpu_util_pct=77, processes=[process(1, "p", mem_used_bytes=5)])],
        {"gpu_util_pct": 77, "gpu_mem_used_bytes": 5},
    ),
    (
        "shared with a stranger: unknown stays unknown",
        [gpu(0, gpu_util_pct=77, processes=[process(1, "p", mem_used_bytes=5), process(2)])],
        {"gpu_mem_used_bytes": 5},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "gpus", "expected"), PODS, ids=[row[0] for row in PODS])
def test_a_pod_over_its_processes(goal: str, gpus: list[dict[str, Any]], expected: dict[str, float]) -> None:
    found = values(read(gpus))
    assert {key[2]: value for key, value in found.items() if key[0] == "pod"} == expected, goal


def test_a_burst_lifts_the_peak_and_not_the_value() -> None:
    burst = [[-900, 40], [-300, 99]]
    one = gpu(0, gpu_util_pct=50, util_burst=burst, processes=[process(1, "p", mem_used_bytes=5)])
    found = tallies(read([one]))
    assert found["p", "", "gpu_util_pct"] == (50, 99)
    assert found["p", "a/0", "gpu_util_pct"] == (50, 99)


def test_per_gpu_and_per_process_figures_for_peaks() -> None:
    found = tallies(
        read([gpu(3, processes=[process(9, "p", gpu_util_pct=30, mem_used_bytes=5), process(8, "q")])])
    )
    assert found["p", "a/3", "mem_used_bytes"] == (5, 5)
    assert found["p", "a/3/9", "gpu_util_pct"] == (30, 30)
    assert not [key for key in found if key[0] == "q"], "nothing was measured of q"


def test_an_unchanged_node_keeps_its_layout() -> None:
    reader = NvmlReader("a")
    one = [gpu(0, processes=[process(1, "p", gpu_util_pct=3)])]
    assert reader.read(nvml(1, one)).layout is reader.read(nvml(2, one)).layout


BAD: list[tuple[str, dict[str, Any], str]] = [
    ("a string", gpu(0, power_w="55"), "gpus[0].power_w"),
    ("a truth value", gpu(0, power_w=True), "gpus[0].power_w"),
    ("too much", gpu(0, gpu_util_pct=101), "gpus[0].gpu_util_pct"),
    ("negative", gpu(0, mem_used_bytes=-1), "gpus[0].mem_used_bytes"),
    ("no name", {"index": 0}, "gpus[0].uuid"),
    ("no object", 7, "gpus[0]"),  # type: ignore[list-item]  # it is bad
    ("a process of the wrong kind", gpu(0, processes=[7]), "gpus[0].processes[0]"),
    ("a process too busy", gpu(0, processes=[process(1, "p", gpu_util_pct=900)]),
     "gpus[0].processes[0].gpu_util_pct"),
    ("a burst out of range", gpu(0, util_burst=[[-5, 900]], gpu_util_pct=5, processes=[process(1, "p")]),
     "gpus[0].util_burst[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "bad", "field"), BAD, ids=[row[0] for row in BAD])
@pytest.mark.parametrize("known", [False, True], ids=["new layout", "known layout"])
def test_a_bad_value_names_its_field(goal: str, bad: Any, field: str, known: bool) -> None:
    reader = NvmlReader("a")
    if known and isinstance(bad, dict) and "uuid" in bad:
        good = {name: value for name, value in bad.items() if name in ("uuid", "index")}
        reader.read(nvml(1, [good]))
    with pytest.raises(DecodeError) as caught:
        reader.read(nvml(2, [bad]))
    assert caught.value.field.startswith(field), goal


HEADS = [
    ("seq", "x"),
    ("ts_ms", -1),
    ("ts_ms", 1.5),
    ("interval_ms", None),
    ("collector", 3),
    ("gpus", {}),
    ("gpus", None),
]


@pytest.mark.parametrize(("name", "value"), HEADS)
def test_a_bad_head_names_its_field(name: str, value: Any) -> None:
    with pytest.raises(DecodeError) as caught:
        NvmlReader("a").read(nvml(1, [gpu(0)]) | {name: value})
    assert caught.value.field == name
