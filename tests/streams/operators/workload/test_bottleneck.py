"""Bottlenecks: a table of figures, whole pods of seeds that no limit was set on, and sizes of GPUs by the
hour."""

import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import orjson
import pytest

from bench import generators_counters
from bench.bench_kind import watched
from bench.generators_jobs import LIMITED, pod
from dutycycle.contract.codec import from_plain, to_plain
from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import CHANNEL_ROW, CHANNELS, NVML_CHANNELS, dequantize
from streams.operators.workload.rules.advice import advice
from streams.operators.workload.rules.bottleneck import BottleneckFinder, find_bottleneck
from streams.operators.workload.rules.stats import PodStats, pod_stats, three_digits
from tests.support.streams.codes import quantize
from tests.support.targets import slow_after

BUSY = {"gpu_util_pct": 97, "mem_copy_util_pct": 30, "gpu_mem_pct": 80, "power_pct": 80, "cpu_pct": 300}
SPINS = BUSY | {"power_pct": 30, "mem_copy_util_pct": 8}
WAITS = BUSY | {"gpu_util_pct": (95, 10)}
"""A pair: in turns, six seconds the one, six the other."""
COUNTERS = {
    "sm_active_pct": 85, "tensor_active_pct": 55, "dram_active_pct": 30, "fp32_active_pct": 6,
    "nvlink_mb_per_s": 20e3,
}  # fmt: skip
"""Those of a GPU that computes on its tensor cores."""
COUNTED = BUSY | COUNTERS
COPIES = {
    "sm_active_pct": 18, "tensor_active_pct": 8, "dram_active_pct": 14, "pcie_kb_per_s": 1e5,
    "pcie_most_kb_per_s": 14e6,
}  # fmt: skip
FEW_WARPS = {
    "tensor_active_pct": 5, "dram_active_pct": 15, "sm_occupancy_pct": 9, "power_pct": 45,
    "tx_kb_per_s": 10,
}  # fmt: skip
SPINNING = (
    SPINS
    | COUNTERS
    | {"tensor_active_pct": 0, "dram_active_pct": 1, "nvlink_mb_per_s": 0.01, "fp32_active_pct": 0}
)
RANK_THAT_WAITS = SPINS | COUNTERS | {
    "sm_active_pct": 74, "tensor_active_pct": 4, "dram_active_pct": 3, "sm_occupancy_pct": 10,
    "nvlink_mb_per_s": 10, "pcie_kb_per_s": 5e6, "pcie_most_kb_per_s": 6e6,
}  # fmt: skip


TURNS: dict[str, float | tuple[float, float]] = {
    "gpu_util_pct": 14, "busiest_gpu_util_pct": (40, 10), "least_gpu_util_pct": 0, "idle_gpus": (3, 0),
    "gpu_mem_pct": 80, "power_pct": 26,
}  # fmt: skip


def window(of: Mapping[str, float | tuple[float, float]], seconds: int = 180) -> Floats:
    """As a span has them: a channel cannot hold every value."""
    values = np.full((len(CHANNELS), seconds), np.nan)
    second = np.arange(seconds)
    if (util := of.get("gpu_util_pct")) is not None:  # of a pod whose GPUs are all as busy
        of = {"busiest_gpu_util_pct": util, **of}
    for name, value in of.items():
        high, low = value if isinstance(value, tuple) else (value, value)
        values[CHANNEL_ROW[name]] = np.where(second % 12 < 6, high, low)
    split = len(NVML_CHANNELS)
    parts = (("nvml", values[:split]), ("cgroup", values[split:]))
    return dequantize(np.concatenate([quantize(source, part.T).T for source, part in parts]))


@pytest.mark.parametrize(
    ("of", "kind", "gpus", "expected"),
    [
        (BUSY, "training", 1, "gpu"),
        (BUSY | {"mem_copy_util_pct": 80}, "inference", 1, "memory_bandwidth"),
        (BUSY | {"throttled_power_pct": 90, "power_pct": 99}, "training", 1, "power"),
        (BUSY | {"throttled_power_pct": 20, "power_pct": 99}, "training", 1, "gpu"),
        (BUSY | {"throttled_power_pct": 95, "power_pct": 45}, "training", 1, "power"),
        (BUSY | {"throttled_power_pct": 40, "power_pct": 45}, "training", 1, "unknown"),
        (BUSY | {"throttled_heat_pct": 60}, "training", 1, "heat"),
        (WAITS | {"cpu_throttled_pct": 40}, "training", 1, "input"),
        (WAITS | {"read_kb_per_s": (100, 200_000)}, "training", 1, "input"),
        (WAITS | {"rx_kb_per_s": (100, 200_000)}, "training", 1, "input"),
        (WAITS | {"host_cpu_pct": 99}, "training", 1, "input"),
        (WAITS | {"cpu_pct": 100}, "training", 1, "input"),
        (WAITS | {"read_kb_per_s": (200_000, 200_000)}, "training", 1, "unknown"),
        (WAITS | {"rx_kb_per_s": 1, "tx_kb_per_s": (100, 300_000)}, "training", 4, "communication"),
        (WAITS | {"cpu_throttled_pct": 0}, "inference", 1, "none"),
        (SPINS | {"tx_kb_per_s": 900_000}, "training", 8, "communication"),
        (SPINS | {"tx_kb_per_s": 10}, "training", 8, "gpu"),
        (SPINS | {"tx_kb_per_s": 10, "pcie_kb_per_s": 400_000}, "training", 8, "communication"),
        (SPINS | {"tx_kb_per_s": 10, "pcie_kb_per_s": 400_000}, "training", 1, "gpu"),
        (SPINS | {"pcie_kb_per_s": 400_000}, "training", 1, "communication"),
        (SPINS | {"pcie_kb_per_s": 30_000}, "training", 8, "unknown"),
        (SPINS | {"pcie_kb_per_s": 400_000, "idle_gpus": 7}, "training", 8, "over_provisioned"),
        (SPINS | {"tx_kb_per_s": 900_000, "idle_gpus": 7}, "training", 8, "over_provisioned"),
        (SPINS | {"pcie_kb_per_s": 400_000, "least_gpu_util_pct": 40}, "training", 8, "imbalance"),
        (BUSY | {"power_pct": 59, "mem_copy_util_pct": 44}, "training", 8, "gpu"),
        (SPINS, "training", 8, "unknown"),
        (SPINS | {"power_pct": 19}, "training", 8, "communication"),
        (SPINS | {"power_pct": 19}, "training", 1, "unknown"),
        (SPINS | {"power_pct": 19}, "inference", 8, "gpu"),
        (SPINS | {"power_pct": 19, "tx_kb_per_s": 10}, "training", 8, "gpu"),
        # An optimizer on the host: its CPUs and the GPU take turns. Loaders work all the time.
        (WAITS | {"cpu_pct": (100, 1600)}, "training", 1, "host"),
        (WAITS | {"cpu_pct": (100, 1600)}, "unknown", 8, "host"),
        (WAITS | {"cpu_pct": (1500, 1600)}, "training", 1, "unknown"),
        (WAITS | {"cpu_pct": (100, 1600)}, "inference", 1, "none"),
        (WAITS | {"cpu_pct": (100, 1600), "read_kb_per_s": (100, 200_000)}, "training", 1, "input"),
        (WAITS | {"write_kb_per_s": (50, 400_000)}, "training", 1, "checkpoint"),
        (WAITS | {"write_kb_per_s": (50, 400_000), "cpu_pct": (100, 1600)}, "training", 8, "checkpoint"),
        (WAITS | {"write_kb_per_s": (300_000, 400_000)}, "training", 1, "unknown"),
        (WAITS | {"write_kb_per_s": (50, 400_000)}, "inference", 1, "none"),
        (SPINS, "inference", 8, "gpu"),
        (WAITS | {"cpu_pct": 100, "tx_kb_per_s": (100, 300_000)}, "training", 4, "communication"),
        (BUSY | {"idle_gpus": 3, "least_gpu_util_pct": 0}, "training", 4, "over_provisioned"),
        (BUSY | {"idle_gpus": 0, "least_gpu_util_pct": 50}, "training", 4, "imbalance"),
        (COUNTED, "training", 1, "gpu"),
        (COUNTED | {"mem_copy_util_pct": 80, "dram_active_pct": 20}, "training", 1, "gpu"),
        (COUNTED | {"dram_active_pct": 70, "tensor_active_pct": 12}, "inference", 1, "memory_bandwidth"),
        (
            COUNTED | {"sm_active_pct": 12, "tensor_active_pct": 3, "dram_active_pct": 6},
            "training",
            8,
            "launch",
        ),
        (
            COUNTED | {"sm_active_pct": 1, "tensor_active_pct": 0, "dram_active_pct": 0},
            "training",
            1,
            "launch",
        ),
        (COUNTED | {"fp32_active_pct": 45, "tensor_active_pct": 0}, "training", 1, "precision"),
        (COUNTED | COPIES, "training", 1, "transfers"),
        (COUNTED | COPIES | {"gpu_util_pct": 40}, "inference", 1, "transfers"),
        (COUNTED | COPIES, "training", 8, "transfers"),
        # Both ways alike: several GPUs may talk to one another.
        (COUNTED | COPIES | {"pcie_kb_per_s": 12e6}, "training", 8, "launch"),
        (COUNTED | COPIES | {"sm_active_pct": 80, "tensor_active_pct": 50}, "training", 1, "gpu"),
        (COUNTED | COPIES | {"pcie_most_kb_per_s": 1e6}, "training", 1, "launch"),
        (BUSY | {"gpu_util_pct": 40, "pcie_most_kb_per_s": 14e6}, "inference", 1, "none"),
        (COUNTED | FEW_WARPS, "training", 1, "occupancy"),
        (
            COUNTED | {name: FEW_WARPS[name] for name in FEW_WARPS if name != "tx_kb_per_s"},
            "training",
            1,
            "occupancy",
        ),
        (COUNTED | FEW_WARPS | {"power_pct": 80}, "training", 1, "gpu"),
        (COUNTED | FEW_WARPS | {"sm_occupancy_pct": 40}, "training", 1, "gpu"),
        # they wait for other nodes, by a network that no counter of the pod's has
        (RANK_THAT_WAITS, "training", 8, "communication"),
        (RANK_THAT_WAITS | {"sm_active_pct": 12}, "training", 8, "communication"),
        (RANK_THAT_WAITS | {"pcie_kb_per_s": 3e5}, "training", 8, "occupancy"),
        (RANK_THAT_WAITS, "training", 1, "communication"),
        (RANK_THAT_WAITS | {"tx_kb_per_s": 10}, "training", 1, "occupancy"),
        (COUNTED | FEW_WARPS | {"tensor_active_pct": 55}, "training", 1, "gpu"),
        # Of the warps of the multiprocessors that are in use.
        (COUNTED | FEW_WARPS | {"gpu_util_pct": 60, "sm_active_pct": 55}, "inference", 1, "none"),
        (COUNTED | {"nvlink_mb_per_s": 250e3, "tensor_active_pct": 15}, "training", 8, "communication"),
        (SPINNING, "training", 8, "communication"),
        (SPINNING | {"sm_active_pct": 8}, "training", 8, "communication"),
        (SPINNING, "inference", 8, "communication"),
        (COUNTED | {"nvlink_mb_per_s": 250e3, "tensor_active_pct": 15}, "inference", 8, "gpu"),
        (SPINNING | {"dram_active_pct": 20, "tensor_active_pct": 10}, "training", 8, "unknown"),
        ({"gpu_util_pct": 12, "gpu_mem_pct": 10}, "inference", 1, "over_provisioned"),
        ({"gpu_util_pct": 12, "gpu_mem_pct": 70}, "inference", 1, "none"),
        ({"gpu_util_pct": 12}, "inference", 1, "none"),
        # Who knows not what it is knows not either that nothing holds it back.
        ({"gpu_util_pct": 12, "gpu_mem_pct": 70}, "unknown", 1, "unknown"),
        # GPUs that work in turns: one or the other rests in each busy second, and none does nothing.
        (TURNS, "training", 8, "unknown"),
        (TURNS, "inference", 8, "none"),
        (TURNS | {"idle_gpus": (3, 7)}, "training", 8, "over_provisioned"),
        ({"gpu_util_pct": 0, "gpu_mem_pct": 70}, "idle", 1, "idle"),
        ({"gpu_util_pct": 0, "read_kb_per_s": 500_000}, "loading", 1, "input"),
    ],
)
def test_the_rules(of: dict[str, float | tuple[float, float]], kind: str, gpus: int, expected: str) -> None:
    found = find_bottleneck(pod_stats(window(of)), kind, gpus)
    assert found.bottleneck == expected
    assert 0.5 <= found.confidence <= 1


def test_of_gpus_that_all_wait_most_of_the_time_none_is_said_to_do_nothing() -> None:
    stats = pod_stats(window(TURNS | {"idle_gpus": (3, 7)}))
    assert stats is not None
    assert find_bottleneck(stats, "training", 8).evidence["idle_gpus"] == 3
    assert find_bottleneck(replace(stats, waits=0.7), "training", 8).bottleneck == "unknown"


def test_too_short_a_time_says_nothing() -> None:
    assert pod_stats(window(BUSY, 40)) is None
    assert find_bottleneck(None, "training", 1).bottleneck == "unknown"


def test_absent_is_not_in_the_evidence() -> None:
    found = pod_stats(window({"gpu_util_pct": 50, "cpu_pct": 200}))
    assert found is not None
    expected = {"gpu_util_pct": 50, "cpu_util_pct": 200, "waiting_pct": 0}
    assert found.evidence() == pytest.approx(expected, rel=0.036)


@pytest.mark.parametrize("seed", slow_after(1, [4100, 4101, 4102]))
@pytest.mark.parametrize("shape", generators_counters.SHAPES)
def test_counters_tell_what_utilization_cannot_and_hide_nothing(shape: str, seed: int) -> None:
    """Through the codes of spans, which have to hold what a rule asks for."""
    without, counted = (
        [one.bottleneck == one.pod.bottleneck for one in watched(each)[0] if one.after_s >= 180]
        for each in generators_counters.counted_pod(shape, seed)
    )
    assert sum(counted) >= sum(without)
    if shape in ("small_kernels", "copies", "few_warps", "float32", "waits_on_nvlink", "spins"):
        assert sum(without) == 0
        assert sum(counted) >= len(counted) / 2


def test_means_are_those_of_numpy() -> None:
    rng = np.random.default_rng(4)
    values = rng.uniform(0, 100, (len(CHANNELS), 180))
    values[rng.uniform(size=values.shape) < 0.2] = np.nan
    found = pod_stats(values)
    assert found is not None
    used = values[:, ~np.isnan(values[CHANNEL_ROW["busiest_gpu_util_pct"]])]
    low = used[CHANNEL_ROW["busiest_gpu_util_pct"]] < 0.6 * found.level_pct
    for name, row in CHANNEL_ROW.items():
        assert found.means[name] == pytest.approx(np.nanmean(used[row]))
        assert found.most[name] == np.nanmax(used[row])
        assert found.loads[name] == pytest.approx((np.nanmean(used[row][low]), np.nanmean(used[row][~low])))
    assert found.waits == pytest.approx(low.mean())


@pytest.mark.parametrize("shape", sorted(set(LIMITED) - {"ends"}))
def test_whole_pods_of_other_seeds(shape: str) -> None:
    said = [one for seed in (3000, 3001, 3002) for one in watched(pod(shape, seed))[0] if one.after_s >= 180]
    right = [one.bottleneck == one.pod.bottleneck for one in said]
    assert np.mean(right) > 0.6, [one.bottleneck for one in said]


@pytest.mark.parametrize(
    ("bottleneck", "kind", "of", "expected"),
    [
        ("idle", "idle", {"gpus": 2, "idle_s": 7200, "idle_cost": 12.5}, r"2 GPU\(s\) .* 2 h, 12\.5 of"),
        ("idle", "idle", {"idle_s": 120, "loaded_mem_pct": 21.4}, "for 2 min, with 21 % .* loaded: scale it"),
        ("input", "training", {"cpu_throttled_pct": 40}, "throttles 40 %"),
        ("gpu", "training", {"gpu_util_pct": 97}, "is the limit as far as its utilization tells: larger"),
        (
            "launch",
            "training",
            {"gpu_util_pct": 100, "sm_active_pct": 12, "dram_active_pct": 6},
            r"too small \(utilization 100 %, SM 12 %, memory 6 %\): larger batches, CUDA graphs",
        ),
        ("precision", "training", {"sm_active_pct": 80}, "on tensor cores .*: autocast"),
        ("input", "loading", {"input_bytes_per_s": 5e8}, "loads at 500 MB/s"),
        ("communication", "training", {"net_bytes_per_s": 9e8}, "one another at 900 MB/s"),
        ("communication", "training", {"pcie_bytes_per_s": 3e9}, "one another at 3 GB/s over PCIe"),
        ("communication", "training", {"spins_power_pct": 19}, "one another, busy at 19 % of their power:"),
        ("host", "training", {"cpu_waiting_pct": 1600}, r"computes on 16\.0 CPUs"),
        ("checkpoint", "training", {"write_bytes_per_s": 4e8}, "400 MB/s are written: save in the"),
        ("over_provisioned", "training", {"idle_gpus": 6, "gpus": 8}, "6 of 8 GPUs"),
        ("over_provisioned", "inference", {"gpu_mem_most_pct": 9}, "9 % of GPU memory"),
        ("gpu", "training", {"mem_limit_bytes": 1e11, "mem_limit_used_pct": 5}, "5 GB of 100 GB"),
    ],
)
def test_advice_has_the_numbers(bottleneck: str, kind: str, of: dict[str, float], expected: str) -> None:
    assert re.search(expected, advice(bottleneck, kind, of) or "")


def test_a_limit_of_memory_that_is_used_is_not_mentioned() -> None:
    said = advice("gpu", "training", {"mem_limit_bytes": 1e11, "mem_limit_used_pct": 25})
    assert said == advice("gpu", "training", {})


def test_nothing_to_say() -> None:
    assert advice("none", "inference", {}) is None


@pytest.mark.parametrize(("value", "expected"), [(123456.0, 123000), (0.123456, 0.123), (42.0, 42), (0.0, 0)])
def test_three_digits(value: float, expected: float) -> None:
    assert three_digits(value) == expected


QUIET_STATS = PodStats(
    seconds=180, means={"busiest_gpu_util_pct": 10, "gpu_mem_pct": 8},
    most={"busiest_gpu_util_pct": 40, "gpu_mem_pct": 9}, level_pct=20, waits=0.4, loads={},
)  # fmt: skip
BUSY_STATS = replace(QUIET_STATS, means={"busiest_gpu_util_pct": 60, "gpu_mem_pct": 8}, level_pct=85)
FULL_STATS = replace(QUIET_STATS, most=QUIET_STATS.most | {"gpu_mem_pct": 70})
MINUTE_MS = 60_000
HOUR = 60
"""Minutes."""


def found(finder: BottleneckFinder, minute: int, of: PodStats | None, kind: str = "inference") -> str:
    return finder.find(minute * MINUTE_MS, of, kind, 1).bottleneck


@pytest.mark.parametrize("other", [BUSY_STATS, FULL_STATS], ids=["time", "memory"])
def test_what_was_needed_within_the_hour_counts(other: PodStats) -> None:
    finder = BottleneckFinder()
    assert found(finder, 1, QUIET_STATS) == "over_provisioned"
    assert found(finder, 5, other) == "none"
    assert {found(finder, minute, QUIET_STATS) for minute in range(6, HOUR)} == {"none"}
    assert found(finder, HOUR + 6, QUIET_STATS) == "over_provisioned"


def test_the_evidence_is_of_the_hour() -> None:
    finder, more = BottleneckFinder(), replace(QUIET_STATS, most=QUIET_STATS.most | {"gpu_mem_pct": 30.5})
    found(finder, 1, more)
    assert finder.find(2 * MINUTE_MS, QUIET_STATS, "inference", 1).evidence == {"gpu_mem_most_pct": 30.5}


def test_a_trainer_that_is_quiet_now_waits_for_what_cannot_be_seen() -> None:
    finder = BottleneckFinder()
    found(finder, 1, BUSY_STATS, "training")
    assert found(finder, 2, QUIET_STATS, "training") == "unknown"


@pytest.mark.parametrize(
    "of", [None, replace(QUIET_STATS, most={"busiest_gpu_util_pct": 1.0, "gpu_mem_pct": 9.0}), BUSY_STATS]
)
def test_all_else_is_as_the_rules_have_it(of: PodStats | None) -> None:
    assert BottleneckFinder().find(MINUTE_MS, of, "inference", 1) == find_bottleneck(of, "inference", 1)


def test_a_restart_changes_nothing() -> None:
    finder = BottleneckFinder()
    for minute in range(90):
        again = from_plain(BottleneckFinder, orjson.loads(orjson.dumps(to_plain(finder))), "insight-parts")
        of = FULL_STATS if minute % 70 == 9 else QUIET_STATS
        assert found(again, minute, of) == found(finder, minute, of)
        assert again == finder
