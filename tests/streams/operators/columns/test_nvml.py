"""An nvml sample in columns: what becomes of GPUs, slices, processes and bursts."""

import math
from typing import Any

import numpy as np
import pytest

from dutycycle.contract.catalogue import OWN_GPU_METRICS
from dutycycle.contract.codec import from_plain
from dutycycle.contract.records.samples import NvmlSample
from streams.operators.columns.block import TickBlock, TickQueue
from streams.operators.columns.nvml import NvmlReader
from streams.operators.columns.series import Series
from streams.operators.columns.tick import TickRow
from tests.support.data.samples import gpu, nvml, process


def sample(gpus: list[dict[str, Any]]) -> NvmlSample:
    return from_plain(NvmlSample, nvml(1, gpus), "nvml-samples")


def read(gpus: list[dict[str, Any]]) -> TickRow:
    return NvmlReader("a").read(sample(gpus))


def values(tick: TickRow) -> dict[tuple[str, str, str], float]:
    """What was measured, by (kind, member, metric)."""
    pairs = zip(tick.layout.series, tick.values.tolist(), strict=True)
    return {(one.kind, one.member, one.metric): value for one, value in pairs if not math.isnan(value)}


def tallies(tick: TickRow) -> dict[tuple[str, str, str], tuple[float, float]]:
    """(value, high) by (pod uid, scope, metric)."""
    block = TickBlock([tick])
    rows = zip(tick.layout.tallies, block.tallies[0].tolist(), block.highs[0].tolist(), strict=True)
    return {
        (one.pod_uid, one.scope, one.metric): (value, high)
        for one, value, high in rows
        if not math.isnan(high)
    }


def test_absent_is_not_idle() -> None:
    found = values(read([gpu(0, gpu_util_pct=0, power_w=55.5), gpu(1)]))
    assert found == {("gpu", "GPU-0", "gpu_util_pct"): 0, ("gpu", "GPU-0", "power_w"): 55.5}


def test_null_counts_as_absent() -> None:
    assert values(read([gpu(0, gpu_util_pct=None)])) == {}


def test_a_slice_is_a_gpu_of_its_own() -> None:
    found = values(read([gpu(0, mig=[{"uuid": "MIG-1", "gpu_util_pct": 40, "mem_used_bytes": 7}])]))
    assert found == {("gpu", "MIG-1", "gpu_util_pct"): 40, ("gpu", "MIG-1", "mem_used_bytes"): 7}


def test_every_number_finds_its_column() -> None:
    """GPUs, slices and processes, several of each: no number is taken for another's."""
    slices = [{"uuid": f"MIG-{at}", "gpu_util_pct": 40 + at, "mem_used_bytes": 400 + at} for at in range(3)]
    running = [process(at, f"p{at}", gpu_util_pct=70 + at, mem_used_bytes=700 + at) for at in range(3)]
    tick = read([
        gpu(0, gpu_util_pct=10, mem_used_bytes=100, power_w=1, power_limit_w=5, processes=running[:2]),
        gpu(1, gpu_util_pct=11, mem_used_bytes=101, temp_c=2, mig=slices[:1], throttle=["sw_power_cap"]),
        gpu(2, gpu_util_pct=12, mem_used_bytes=102, power_limit_w=6, mig=slices[1:], processes=running[2:]),
    ])  # fmt: skip
    expected = {("gpu", "GPU-0", "power_w"): 1, ("gpu", "GPU-1", "temp_c"): 2}
    for at in range(3):
        expected |= {
            ("gpu", f"GPU-{at}", "gpu_util_pct"): 10 + at,
            ("gpu", f"GPU-{at}", "mem_used_bytes"): 100 + at,
            ("gpu", f"MIG-{at}", "gpu_util_pct"): 40 + at,
            ("gpu", f"MIG-{at}", "mem_used_bytes"): 400 + at,
            ("pod", f"p{at}", "gpu_util_pct"): 70 + at,
            ("pod", f"p{at}", "busiest_gpu_util_pct"): 70 + at,
            ("pod", f"p{at}", "gpu_mem_used_bytes"): 700 + at,
        }
    assert values(tick) == expected
    assert [None if math.isnan(one) else one for one in TickBlock([tick]).facts[0]] == [
        5, None, None, None, 100, 0, 6, None, None,
    ]  # fmt: skip
    assert tallies(tick)["p1", "a/0/1", "mem_used_bytes"] == (701, 701)


@pytest.mark.parametrize(
    ("of_gpu", "power", "heat"),
    [
        ({}, math.nan, math.nan),
        ({"throttle": []}, 0, 0),
        ({"hw_thermal_pct": 60}, math.nan, 60),
        ({"thermal_pct": 30, "sw_power_cap_pct": 0, "power_brake_pct": 20}, 20, 30),
        ({"throttle": [], "sw_thermal_pct": 5, "sw_power_cap_pct": 40}, 40, 5),
        ({"throttle": ["hw_thermal_slowdown"], "hw_thermal_pct": 10, "sw_power_cap_pct": 7}, 7, 100),
    ],
)
def test_what_holds_clocks_down_is_told_by_counters_whether_or_not_reasons_are_known(
    of_gpu: dict[str, Any], power: float, heat: float
) -> None:
    facts = TickBlock([read([gpu(0), gpu(1, power_limit_w=700, **of_gpu)])]).facts[0]
    assert np.array_equal(facts[3:], [700, power, heat], equal_nan=True)


PODS: list[tuple[str, list[dict[str, Any]], dict[str, float]]] = [
    (
        "two processes on one GPU add up",
        [gpu(0, processes=[process(1, "p", gpu_util_pct=30, mem_used_bytes=5),
                           process(2, "p", gpu_util_pct=20, mem_used_bytes=6)])],
        {"gpu_util_pct": 50, "busiest_gpu_util_pct": 50, "gpu_mem_used_bytes": 11},
    ),
    (
        "no GPU is more than busy",
        [gpu(0, processes=[process(1, "p", gpu_util_pct=80), process(2, "p", gpu_util_pct=80)])],
        {"gpu_util_pct": 100, "busiest_gpu_util_pct": 100},
    ),
    (
        "over GPUs: the mean and the busiest, and the sum of memory",
        [gpu(0, processes=[process(1, "p", gpu_util_pct=30, mem_used_bytes=5)]),
         gpu(1, processes=[process(2, "p", gpu_util_pct=90, mem_used_bytes=6)])],
        {"gpu_util_pct": 60, "busiest_gpu_util_pct": 90, "gpu_mem_used_bytes": 11},
    ),
    (
        "alone on the GPU: the device tells what the processes cannot",
        [gpu(0, gpu_util_pct=77, processes=[process(1, "p", mem_used_bytes=5)])],
        {"gpu_util_pct": 77, "busiest_gpu_util_pct": 77, "gpu_mem_used_bytes": 5},
    ),
    (
        "shared with a stranger: unknown stays unknown",
        [gpu(0, gpu_util_pct=77, processes=[process(1, "p", mem_used_bytes=5), process(2)])],
        {"gpu_mem_used_bytes": 5},
    ),
    (
        "its two containers have parts of a GPU that it shares with another pod",
        [gpu(0, gpu_util_pct=77, allocated=[
            {"pod_uid": "p", "namespace": "n", "pod": "p", "gpu_util_pct": 30, "mem_used_bytes": 5},
            {"namespace": "n", "pod": "q", "gpu_util_pct": 27},
            {"pod_uid": "p", "namespace": "n", "pod": "p", "gpu_util_pct": 20},
        ])],
        {"gpu_util_pct": 50, "busiest_gpu_util_pct": 50, "gpu_mem_used_bytes": 5},
    ),
    (
        "shared with another pod, and no part of it is told",
        [gpu(0, gpu_util_pct=77, allocated=[
            {"pod_uid": "p", "namespace": "n", "pod": "p"},
            {"namespace": "n", "pod": "q", "gpu_util_pct": 27},
        ])],
        {},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "gpus", "expected"), PODS, ids=[row[0] for row in PODS])
def test_a_pod_over_its_processes(goal: str, gpus: list[dict[str, Any]], expected: dict[str, float]) -> None:
    found = values(read(gpus))
    assert {key[2]: value for key, value in found.items() if key[0] == "pod"} == expected, goal


def test_of_a_burst_the_value_is_its_mean_and_the_peak_its_maximum() -> None:
    burst = [[-900, 40], [-300, 99]]
    one = gpu(0, gpu_util_pct=50, util_burst=burst, processes=[process(1, "p", mem_used_bytes=5)])
    found = tallies(read([one]))
    assert found["p", "a/0", "gpu_util_pct"] == (69.5, 99)


def test_beside_the_mean_of_a_burst_stands_what_the_gpu_read() -> None:
    held = {"allocated": [{"pod_uid": "p", "namespace": "team", "pod": "p"}]}
    bursts = {"util_burst": [[-900, 40], [-300, 99]], "power_burst": [[-900, 300], [-300, 500]]}
    ticks = [read([gpu(0, gpu_util_pct=at, power_w=100, **bursts, **held)]) for at in (50, 20)]
    block = TickBlock([ticks[0], ticks[1]._replace(layout=ticks[0].layout)])
    of_gpu, of_pod, power = (
        block.layout.series.index(Series(*name))
        for name in (
            ("gpu", "GPU-0", "gpu_util_pct"),
            ("pod", "p", "gpu_util_pct"),
            ("gpu", "GPU-0", "power_w"),
        )
    )
    assert block.values[:, of_gpu].tolist() == [69.5, 69.5]
    assert block.value_highs[:, of_gpu].tolist() == [99, 99]
    assert block.readings[:, of_gpu].tolist() == [50, 20]
    assert block.readings[:, power].tolist() == [100, 100]
    assert block.readings[:, of_pod].tolist() == block.values[:, of_pod].tolist() == [69.5, 69.5]


def test_what_has_no_bursts_was_read() -> None:
    block = TickBlock([read([gpu(0, gpu_util_pct=50)])])
    assert block.readings is block.values


def test_the_largest_that_a_source_has_beside_the_mean_is_the_peak() -> None:
    held = {"allocated": [{"pod_uid": "p", "namespace": "team", "pod": "p"}]}
    one = gpu(0, gpu_util_pct=50, gpu_util_max_pct=99, **held)
    other = gpu(1, gpu_util_pct=30, gpu_util_max_pct=40, util_burst=[[-900, 30], [-300, 60]])
    tick = read([one, other])
    assert tallies(tick)["p", "a/0", "gpu_util_pct"] == (50, 99)
    assert tick.value_highs is not None
    highs = dict(zip(tick.layout.series, tick.value_highs.tolist(), strict=True))
    assert [highs[Series("gpu", f"GPU-{at}", "gpu_util_pct")] for at in (0, 1)] == [99, 60]
    assert highs[Series("pod", "p", "gpu_util_pct")] == 99
    assert values(tick)["gpu", "GPU-0", "gpu_util_pct"] == 50
    assert read([gpu(0, gpu_util_pct=50)]).value_highs is None


def test_what_was_never_measured_takes_no_room_until_it_is() -> None:
    reader = NvmlReader("a")
    first = reader.read(sample([gpu(0, gpu_util_pct=1, temp_c=40)]))
    fewer = reader.read(sample([gpu(0, gpu_util_pct=2)]))
    more = reader.read(sample([gpu(0, temp_c=41, sm_clock_mhz=900)]))
    busy = reader.read(sample([gpu(0, temp_c=42, processes=[process(7)])]))
    other = reader.read(sample([gpu(1, temp_c=43)]))
    assert [values(tick) for tick in (first, fewer, more, busy, other)] == [
        {("gpu", "GPU-0", "gpu_util_pct"): 1, ("gpu", "GPU-0", "temp_c"): 40},
        {("gpu", "GPU-0", "gpu_util_pct"): 2},
        {("gpu", "GPU-0", "temp_c"): 41, ("gpu", "GPU-0", "sm_clock_mhz"): 900},
        {("gpu", "GPU-0", "temp_c"): 42},
        {("gpu", "GPU-1", "temp_c"): 43},
    ]
    # Utilization and power always have room: a burst may tell them alone.
    assert [tick.layout.width for tick in (first, fewer, more, busy, other)] == [3, 3, 4, 4, 3]
    queue = TickQueue()
    queue.due_ms = fewer.ts_ms + 1
    queue.add(first)
    assert queue.accepts(fewer)
    queue.add(fewer)
    assert not queue.accepts(more)


def test_per_gpu_and_per_process_figures_for_peaks() -> None:
    found = tallies(
        read([gpu(3, processes=[process(9, "p", gpu_util_pct=30, mem_used_bytes=5), process(8, "q")])])
    )
    assert found["p", "a/3", "mem_used_bytes"] == (5, 5)
    assert found["p", "a/3/9", "gpu_util_pct"] == (30, 30)
    assert not [key for key in found if key[0] == "q"], "nothing was measured of q"


def test_an_unchanged_node_keeps_its_layout() -> None:
    reader = NvmlReader("a")
    one, other = (sample([gpu(0, processes=[process(1, "p", gpu_util_pct=pct)])]) for pct in (3, 4))
    assert reader.read(one).layout is reader.read(other).layout


RUNNING = gpu(0, gpu_util_pct=7, processes=[process(1, "p", gpu_util_pct=30, mem_used_bytes=5)])
CHANGES = [
    ("the process is another pod's", gpu(0, gpu_util_pct=7, processes=[process(1, "q", gpu_util_pct=3)])),
    ("another process", gpu(0, gpu_util_pct=7, processes=[process(2, "p", gpu_util_pct=30)])),
    ("one more process", gpu(0, processes=[process(1, "p", gpu_util_pct=30), process(2, "q")])),
    ("the process is gone, and the GPU is still given to it", gpu(0, gpu_util_pct=7,
        allocated=[{"pod_uid": "p", "namespace": "n", "pod": "p"}])),
    ("nobody is on it", gpu(0, gpu_util_pct=7)),
    ("another GPU", gpu(1, gpu_util_pct=7, processes=[process(1, "p", gpu_util_pct=30)])),
    ("it was sliced", gpu(0, mig=[{"uuid": "MIG-1", "gpu_util_pct": 5}],
        allocated=[{"pod_uid": "p", "namespace": "n", "pod": "p", "mig": "MIG-1"}])),
    *((f"it is shared, {what}", gpu(0, gpu_util_pct=7, allocated=[
        {"pod_uid": pod, "namespace": "n", "pod": pod} | part for pod in "pq"]))
      for what, part in (("in parts", {"gpu_util_pct": 3}), ("and nobody tells how", {}))),
]  # fmt: skip


@pytest.mark.parametrize(("goal", "other"), CHANGES, ids=[row[0] for row in CHANGES])
def test_what_changes_is_noticed(goal: str, other: dict[str, Any]) -> None:
    reader = NvmlReader("a")
    for one in (RUNNING, other, RUNNING):
        got, expected = reader.read(sample([one])), read([one])
        assert got.layout == expected.layout, goal
        assert (values(got), tallies(got)) == (values(expected), tallies(expected)), goal


A_GPU = {"sm_active_pct": 70, "tensor_active_pct": 40, "dram_active_pct": 20}
A_SLICE = {"uuid": "MIG-1", "sm_active_pct": 30, "tensor_active_pct": 10}
OWNED: list[tuple[str, list[dict[str, Any]], dict[tuple[str, str], tuple[float, float]]]] = [
    (
        "alone on a GPU, by its processes",
        [gpu(0, **A_GPU, processes=[process(1, "p")]), gpu(1, sm_active_pct=99)],
        {("a/0", "sm_active_pct"): (70, 70), ("a/0", "tensor_active_pct"): (40, 40),
         ("a/0", "dram_active_pct"): (20, 20)},
    ),
    (
        "alone on a GPU, by the kubelet",
        [gpu(0), gpu(1, sm_active_pct=5, allocated=[{"pod_uid": "p", "namespace": "n", "pod": "p"}])],
        {("a/1", "sm_active_pct"): (5, 5)},
    ),
    ("with a stranger", [gpu(0, **A_GPU, processes=[process(1, "p"), process(2)])], {}),
    ("with another pod", [gpu(0, **A_GPU, processes=[process(1, "p"), process(2, "q")])], {}),
    (
        "slices: their mean, and the busier",
        [gpu(0), gpu(1, mig=[A_SLICE, {"uuid": "MIG-2", "sm_active_pct": 50}, {"uuid": "MIG-3"}], allocated=[
            {"pod_uid": "p", "namespace": "n", "pod": "p", "mig": f"MIG-{number}"} for number in (1, 2, 3)
        ])],
        {("a/1", "sm_active_pct"): (40, 50), ("a/1", "tensor_active_pct"): (10, 10)},
    ),
    ("a GPU without counters", [gpu(0, gpu_util_pct=90, processes=[process(1, "p")])], {}),
]  # fmt: skip


@pytest.mark.parametrize(("gpus", "expected"), [pytest.param(*case, id=name) for name, *case in OWNED])
def test_what_a_gpu_does_is_its_pods_where_one_has_it_alone(
    gpus: list[dict[str, Any]], expected: dict[tuple[str, str], tuple[float, float]]
) -> None:
    found = {
        (scope, metric): pair
        for (_, scope, metric), pair in tallies(read(gpus)).items()
        if metric in OWN_GPU_METRICS
    }
    assert found == expected


def test_gpus_without_counters_have_no_columns_for_them_and_others_keep_theirs() -> None:
    reader = NvmlReader("a")
    running = {"processes": [process(1, "p")]}

    def columns(**fields: Any) -> int:
        tick = reader.read(sample([gpu(0, **running, **fields)]))
        return sum(one.metric in OWN_GPU_METRICS for one in tick.layout.tallies)

    assert [columns(), columns(**A_GPU), columns()] == [0, 3, 3]
