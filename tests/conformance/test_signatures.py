"""What GPUs really do, as samples of a pod: each signature is told, and nothing else is claimed.

Scripted samples go through all stages. Figures are those of a Hopper's counters, with a little noise.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from dutycycle.contract.codec import decode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import PodInsight
from dutycycle.contract.records.samples import MigDevice
from dutycycle.contract.settings.groups import Settings
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.data.samples import cgroup, gpu, nvml, record
from tests.support.targets import slow_after

SECONDS = 300
NODE = "gpu-a"
LIMIT_W = 700
Figures = dict[str, Any]
Script = Callable[[int], list[Figures]]
"""What each GPU does in a second; ``cpu`` is taken out: what the pod's container does then."""

TRAINS: Figures = {
    "gpu_util_pct": 98, "power_w": 600, "mem_copy_util_pct": 35, "sm_active_pct": 88, "tensor_active_pct": 55,
    "dram_active_pct": 35, "fp32_active_pct": 6, "fp64_active_pct": 0, "nvlink_rx_bytes_per_s": 2e10,
    "sm_occupancy_pct": 24, "pcie_rx_bytes_per_s": 6e8, "pcie_tx_bytes_per_s": 3e8,
}  # fmt: skip
IDLES: Figures = {
    "gpu_util_pct": 0, "power_w": 90, "mem_copy_util_pct": 0, "sm_active_pct": 0, "tensor_active_pct": 0,
    "dram_active_pct": 0, "fp32_active_pct": 0, "fp64_active_pct": 0, "nvlink_rx_bytes_per_s": 0,
    "sm_occupancy_pct": 0, "pcie_rx_bytes_per_s": 0, "pcie_tx_bytes_per_s": 0,
}  # fmt: skip
SPINS = TRAINS | {
    "gpu_util_pct": 100, "power_w": 260, "mem_copy_util_pct": 0, "sm_active_pct": 30, "tensor_active_pct": 0,
    "dram_active_pct": 0.4, "fp32_active_pct": 0.2, "nvlink_rx_bytes_per_s": 1e6,
}  # fmt: skip
COUNTERS = {name for name in TRAINS if "active" in name} | {"sm_occupancy_pct", "nvlink_rx_bytes_per_s"}
UTILIZATION_ALONE = {name: value for name, value in TRAINS.items() if name not in COUNTERS}


def steady(gpus: int = 2, **changes: Any) -> Script:
    return lambda _at: [TRAINS | changes for _ in range(gpus)]


def in_turns(works: Figures, waits: Figures, gpus: int = 2) -> Script:
    """Ten seconds the one, five the other."""
    return lambda at: [works if at % 15 < 10 else waits for _ in range(gpus)]


_BY_DEFAULT = ("tensor_active_pct", "dram_active_pct", "pcie_rx_bytes_per_s", "pcie_tx_bytes_per_s")


def default_list(**changes: Any) -> Script:
    """What dcgm-exporter has in its default list: no activity of SMs, and NVLink both ways together."""
    known = UTILIZATION_ALONE | {name: TRAINS[name] for name in _BY_DEFAULT} | {"nvlink_bytes_per_s": 4e10}
    return lambda _at: [known | changes] * 2


SIGNATURES: dict[str, tuple[Script, str]] = {
    "memory held, nothing done": (lambda _at: [IDLES, IDLES], "idle"),
    "waits for data while the CPU is throttled": (
        in_turns(TRAINS | {"cpu": {"cpu_throttled_pct": 5}}, IDLES | {"cpu": {"cpu_throttled_pct": 60}}),
        "input",
    ),
    "waits for data that is read": (
        in_turns(
            TRAINS | {"cpu": {"io_read_bytes_per_s": 0}}, IDLES | {"cpu": {"io_read_bytes_per_s": 3e8}}
        ),
        "input",
    ),
    "kernels too small": (
        steady(sm_active_pct=12, tensor_active_pct=4, dram_active_pct=7, power_w=300), "launch",
    ),
    "memory is the limit": (steady(tensor_active_pct=12, dram_active_pct=72), "memory_bandwidth"),
    "32-bit floats": (steady(tensor_active_pct=0, fp32_active_pct=55, dram_active_pct=20), "precision"),
    "NVLink carries all it can": (
        steady(tensor_active_pct=12, dram_active_pct=15, nvlink_rx_bytes_per_s=3e11), "communication",
    ),
    "NVLink carries all it can, by the default list": (
        default_list(tensor_active_pct=12, dram_active_pct=15, nvlink_bytes_per_s=6e11), "communication",
    ),
    "memory is the limit, by the default list": (
        default_list(tensor_active_pct=12, dram_active_pct=72), "memory_bandwidth",
    ),
    "kernels that spin, by the default list": (
        default_list(gpu_util_pct=100, power_w=260, mem_copy_util_pct=0, tensor_active_pct=0,
                     dram_active_pct=0.4, nvlink_bytes_per_s=1e6, pcie_rx_bytes_per_s=1e5,
                     pcie_tx_bytes_per_s=1e5),
        "communication",
    ),
    "kernels that spin": (lambda _at: [SPINS, SPINS], "communication"),
    "copies to the GPU": (
        steady(gpu_util_pct=45, sm_active_pct=18, tensor_active_pct=9, dram_active_pct=14, power_w=260,
               pcie_rx_bytes_per_s=1.4e10),
        "transfers",
    ),
    "few warps": (
        steady(sm_active_pct=85, sm_occupancy_pct=9, tensor_active_pct=5, dram_active_pct=12, power_w=300),
        "occupancy",
    ),
    "held down by power": (steady(power_w=698, throttle=["sw_power_cap"]), "power"),
    "held down by a power brake": (
        steady(power_w=300, sm_clock_mhz=600, throttle=["hw_slowdown", "hw_power_brake_slowdown"]), "power",
    ),
    "held down by heat": (steady(power_w=450, throttle=["sw_thermal_slowdown"]), "heat"),
    "held down by heat, as counters alone tell": (steady(power_w=450, hw_thermal_pct=60), "heat"),
    "held down by power, as counters alone tell": (steady(power_w=698, sw_power_cap_pct=80), "power"),
    "one GPU works": (lambda _at: [TRAINS, TRAINS | {"gpu_util_pct": 40, "sm_active_pct": 30}], "imbalance"),
    "tensor cores are the limit": (steady(tensor_active_pct=72), "gpu"),
    "64-bit floats, at few warps": (
        steady(tensor_active_pct=0, fp64_active_pct=60, fp32_active_pct=2, sm_occupancy_pct=10), "gpu",
    ),
}  # fmt: skip
CONTROLS: dict[str, tuple[Script, set[str]]] = {
    "a good training": (steady(), {"gpu"}),
    "a training in steps": (
        in_turns(TRAINS, TRAINS | {"gpu_util_pct": 92, "tensor_active_pct": 30}), {"gpu"},
    ),
    "one GPU alone": (steady(gpus=1), {"gpu"}),
    "a good training at few warps": (steady(sm_occupancy_pct=9), {"gpu"}),
    "data that comes at a GB a second": (steady(pcie_rx_bytes_per_s=1.2e9), {"gpu"}),
    "all that PCIe carries, beside full work": (steady(pcie_rx_bytes_per_s=2e10), {"gpu"}),
    "no counters": (lambda _at: [UTILIZATION_ALONE, UTILIZATION_ALONE], {"gpu"}),
    "a good training by the default list": (default_list(), {"gpu"}),
    "some counters": (lambda _at: [UTILIZATION_ALONE | {"tensor_active_pct": 45}] * 2, {"gpu"}),
    "video engines, while hardly a kernel runs": (
        lambda at: [UTILIZATION_ALONE | {"gpu_util_pct": at % 4, "power_w": 200, "mem_copy_util_pct": 2,
                    "enc_util_pct": 80, "dec_util_pct": 45}],
        {"none", "unknown", "over_provisioned"},
    ),
    "a small model that is asked once a second": (
        lambda _at: [UTILIZATION_ALONE | {"gpu_util_pct": 3, "power_w": 95, "mem_copy_util_pct": 0}],
        {"none", "unknown", "over_provisioned"},
    ),
    "a server with few requests": (
        lambda at: [TRAINS | {
            "gpu_util_pct": 20 + 15 * (at * 7919 % 5 == 0), "sm_active_pct": 4, "tensor_active_pct": 2,
            "dram_active_pct": 5, "power_w": 200,
        }],
        {"none", "unknown", "over_provisioned"},
    ),
}  # fmt: skip


def samples(script: Script, seconds: int = SECONDS, tick_s: float = 1) -> Iterator[ConsumerRecord]:
    """A tick tells of its whole time what counters tell, and else how it is at its end."""
    pod = {"v": 1, "uid": "uid-1", "namespace": "ml", "name": "w-0", "node": NODE, "phase": "Running"}
    yield record("pods", "uid-1", pod)
    chance = np.random.default_rng(3)
    for seq in range(1, int(seconds / tick_s) + 1):
        container: Figures = {"id": "c", "cpu_util_pct": 240, "mem_used_bytes": 8e9}
        gpus = []
        now = int(seq * tick_s - 1e-9)
        within = [script(second) for second in range(int((seq - 1) * tick_s), now + 1)]
        for index, figures in enumerate(within[-1]):
            told = figures | {
                name: sum(each[index].get(name, 0) for each in within) / len(within)
                for name in figures
                if name in COUNTERS or name.endswith("_per_s")
            }
            told.pop("cpu", None)
            of_cpu = [each[index].get("cpu", {}) for each in within]
            names = {name for each in of_cpu for name in each}
            container |= {name: sum(each.get(name, 0) for each in of_cpu) / len(within) for name in names}
            noisy = {
                name: round(min(value * chance.normal(1, 0.01), 100 if name.endswith("_pct") else 1e13), 1)
                for name, value in told.items() if not isinstance(value, list)
            }  # fmt: skip
            process = {"pid": index + 1, "pod_uid": "uid-1", "mem_used_bytes": 60e9}
            gpus.append(
                gpu(index, **(told | noisy), processes=[process], mem_used_bytes=60e9, mem_total_bytes=80e9,
                    power_limit_w=LIMIT_W)
            )  # fmt: skip
        tick: Figures = {
            "node": NODE,
            "ts_ms": round(1000 * seq * tick_s),
            "interval_ms": round(1000 * tick_s),
        }
        yield record("nvml-samples", NODE, nvml(seq, gpus, **tick), seq)
        host = {"cpu_util_pct": 300, "cpu_count": 64, "mem_used_bytes": 2e10, "mem_total_bytes": 5e11}
        pods = [{"uid": "uid-1", "containers": [container]}]
        yield record("cgroup-samples", NODE, cgroup(seq, host, pods, **tick), seq)


def insights(script: Script, seconds: int = SECONDS, tick_s: float = 1) -> list[Insight]:
    """All that is said of the pod, in order."""
    pipeline, told = LocalPipeline(stages(Settings())), []
    for one in samples(script, seconds, tick_s):
        told += [out for out in pipeline.feed(one) if out.topic == "insights"]
    told += [out for out in pipeline.flush() if out.topic == "insights"]
    return [
        insight
        for out in told
        if (insight := decode(Insight, out.value or b"", "insights")).subject.kind == "pod"
    ]


@pytest.mark.parametrize("name", slow_after(4, SIGNATURES))
def test_each_signature_is_told_and_nothing_else(name: str) -> None:
    script, expected = SIGNATURES[name]
    said = insights(script)
    assert said[-1].bottleneck == expected
    assert said[-1].advice or expected == "idle"
    assert {one.bottleneck for one in said} <= {expected, "unknown"}
    assert not [anomaly for one in said for anomaly in one.anomalies]


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("NVLink carries all it can", " at 301 GB/s over NVLink"),
        ("NVLink carries all it can, by the default list", " at 301 GB/s over NVLink"),
        ("kernels that spin", ", busy at 37 % of their power"),
    ],
)
def test_the_advice_on_communication_says_what_was_seen(name: str, seen: str) -> None:
    assert f"GPUs wait for one another{seen}: " in (insights(SIGNATURES[name][0])[-1].advice or "")


@pytest.mark.parametrize("name", slow_after(3, CONTROLS))
def test_of_controls_nothing_is_claimed(name: str) -> None:
    script, allowed = CONTROLS[name]
    said = insights(script)
    assert {one.bottleneck for one in said} <= allowed | {"unknown"}
    assert not [anomaly for one in said for anomaly in one.anomalies]


def newest_of_pods(
    figures: Callable[[int], Figures], pods: int, seconds: int
) -> dict[str | None, PodInsight]:
    """What is known in the end of pods, by name, each with a process on the one GPU."""
    pipeline, published = LocalPipeline(stages(Settings())), []
    parts = {"gpu_util_pct": 1} if pods > 1 else {}
    processes = [{"pid": pod, "pod_uid": f"uid-{pod}"} | parts for pod in range(pods)]
    for pod in range(pods):
        who = {"v": 1, "uid": f"uid-{pod}", "namespace": "v", "name": f"t-{pod}", "node": NODE}
        published += pipeline.feed(record("pods", f"uid-{pod}", who | {"phase": "Running"}))
    for seq in range(1, seconds):
        tick: Figures = {"node": NODE, "ts_ms": 1000 * seq}
        one = gpu(0, **figures(seq), processes=processes)
        published += pipeline.feed(record("nvml-samples", NODE, nvml(seq, [one], **tick), seq))
    published += pipeline.flush()
    records = [decode(PodInsight, out.value or b"", out.topic) for out in published
               if out.topic == "pod-insights"]  # fmt: skip
    return {known.pod.name: known for known in records}


@pytest.mark.parametrize("pods", [1, 2])
def test_a_pod_on_a_gpu_whose_video_engines_work_is_not_idle(pods: int) -> None:
    """Utilization counts kernels alone, and of a GPU of several pods nobody tells whose video it is."""
    encodes = {"gpu_util_pct": pods, "enc_util_pct": 80, "dec_util_pct": 45}
    newest = newest_of_pods(lambda _at: encodes, pods, 200)
    assert len(newest) == pods
    for known in newest.values():
        assert known.state is not None
        assert known.state.idle_since_ms is None
        assert known.insight.bottleneck != "idle"


@pytest.mark.parametrize(
    ("util_pct", "idle_s"),
    [
        (lambda _at: 3, None),
        (lambda at: 4 * (at % 3 == 0), None),
        (lambda at: 4 * (at < 600), 200),  # it is known three minutes after the last of them
        (lambda at: 3 * (at % 9 == 0), 1000),
        (lambda _at: 0, 1000),
    ],
    ids=["a request a second", "twenty a minute", "requests, then none", "health checks", "nothing"],
)
def test_who_does_a_little_all_the_time_uses_a_gpu(
    util_pct: Callable[[int], int], idle_s: float | None
) -> None:
    """As a service does that is asked by few: no second of it takes 5 % of the GPU."""
    newest = newest_of_pods(lambda at: {"gpu_util_pct": util_pct(at), "power_w": 70}, 1, 1000)
    state = newest["t-0"].state
    assert state is not None
    since_ms = state.idle_since_ms
    known_s = None if since_ms is None else (state.seen_ms - since_ms) / 1000
    assert known_s == pytest.approx(idle_s, abs=30) if idle_s else known_s is None


TICKS = {0.2: 200, 5.0: 300, 15.0: 900, 60.0: 2400}
"""Seconds between ticks, and of how long a time."""
APART = "waits for data that is read"
"""Known by what is read while the GPU waits, and not else: ticks longer than that show no such moments. Each
of them ends while the GPU waits."""


@pytest.mark.parametrize("name", slow_after(2, SIGNATURES))
@pytest.mark.parametrize("tick_s", TICKS)
def test_each_signature_is_told_of_other_ticks(tick_s: float, name: str) -> None:
    script, expected = SIGNATURES[name]
    if name == APART and tick_s > 5:
        expected = "unknown"
    said = insights(script, TICKS[tick_s], tick_s)
    assert said[-1].bottleneck == expected
    assert {one.bottleneck for one in said} <= {expected, "unknown"}
    assert not [anomaly for one in said for anomaly in one.anomalies]


@pytest.mark.slow
@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("tick_s", TICKS)
def test_of_controls_nothing_is_claimed_of_other_ticks(tick_s: float, name: str) -> None:
    script, allowed = CONTROLS[name]
    said = insights(script, TICKS[tick_s], tick_s)
    assert {one.bottleneck for one in said} <= allowed | {"unknown"}
    assert not [anomaly for one in said for anomaly in one.anomalies]


SLICE_OF: dict[str, tuple[Figures, str]] = {
    "kernels too small": ({"sm_active_pct": 12, "tensor_active_pct": 4, "dram_active_pct": 7}, "launch"),
    "32-bit floats": ({"tensor_active_pct": 0, "fp32_active_pct": 55, "dram_active_pct": 20}, "precision"),
    "memory is the limit": ({"tensor_active_pct": 12, "dram_active_pct": 72}, "memory_bandwidth"),
    "copies to the slice": (
        {"gpu_util_pct": 45, "sm_active_pct": 18, "tensor_active_pct": 9, "dram_active_pct": 14,
         "pcie_rx_bytes_per_s": 1.4e10},
        "transfers",
    ),
    "full work": ({}, "gpu"),
}  # fmt: skip


def of_slices(of_pod: Figures, of_neighbour: Figures) -> Iterator[ConsumerRecord]:
    """A pod on a MIG slice, and another one on the other slice of the GPU. The GPU itself counts nothing."""
    pods = {"uid-1": ("MIG-1", of_pod), "uid-2": ("MIG-2", of_neighbour)}
    for uid in pods:
        pod = {"v": 1, "uid": uid, "namespace": "ml", "name": uid, "node": NODE, "phase": "Running"}
        yield record("pods", uid, pod)
    told = {name for name in MigDevice.__struct_fields__ if name.endswith(("_pct", "_bytes_per_s"))}
    for at in range(SECONDS):
        slices = [
            {"uuid": uuid, "mem_used_bytes": 30e9, "mem_total_bytes": 40e9}
            | {name: value for name, value in figures.items() if name in told}
            for uuid, figures in pods.values()
        ]
        given = [
            {"pod_uid": uid, "namespace": "ml", "pod": uid, "mig": uuid} for uid, (uuid, _) in pods.items()
        ]
        whole = gpu(0, power_w=500 + at % 5, power_limit_w=LIMIT_W, mig=slices, allocated=given)
        yield record("nvml-samples", NODE, nvml(at, [whole], node=NODE), at)
        host = {"cpu_util_pct": 300, "cpu_count": 64, "mem_used_bytes": 2e10, "mem_total_bytes": 5e11}
        containers = [{"id": "c", "cpu_util_pct": 240, "mem_used_bytes": 8e9}]
        cgroups = [{"uid": uid, "containers": containers} for uid in pods]
        yield record("cgroup-samples", NODE, cgroup(at, host, cgroups, node=NODE), at)


@pytest.mark.parametrize("name", slow_after(2, SLICE_OF))
def test_a_pod_is_judged_by_its_own_slice(name: str) -> None:
    changes, expected = SLICE_OF[name]
    pipeline = LocalPipeline(stages(Settings()))
    told = [out for one in of_slices(TRAINS | changes, TRAINS) for out in pipeline.feed(one)]
    said = [
        decode(Insight, out.value or b"", "insights")
        for out in [*told, *pipeline.flush()]
        if out.topic == "insights"
    ]
    # While another kind is taken for it, what holds it back is unknown for a while.
    found = {(insight.subject.pod_uid, insight.bottleneck) for insight in said}
    assert found - {("uid-1", "unknown"), ("uid-2", "unknown")} == {("uid-1", expected), ("uid-2", "gpu")}
    last = {insight.subject.pod_uid: insight for insight in said if insight.bottleneck != "unknown"}
    assert "SM 88 %" in (last["uid-2"].advice or "")


FREE = TRAINS | {"sm_clock_mhz": 1700, "temp_c": 62, "throttle": []}
WAITS_IN_STEP = FREE | {"power_w": 420, "tensor_active_pct": 25, "dram_active_pct": 16, "sm_active_pct": 60}
BRAKE: Figures = {
    "power_w": 300, "sm_clock_mhz": 600, "throttle": ["hw_slowdown", "hw_power_brake_slowdown"],
}  # fmt: skip
OWN_LIMIT: Figures = {"power_w": 695, "sm_clock_mhz": 1300, "throttle": ["sw_power_cap"]}
HEAT: Figures = {"power_w": 420, "sm_clock_mhz": 900, "temp_c": 88, "throttle": ["sw_thermal_slowdown"]}
HELD_DOWN = {
    "a power brake, in step": (
        WAITS_IN_STEP,
        BRAKE,
        "power",
        "held down by a power brake: its clock is 65 %",
    ),
    "a power brake, each alone": (FREE, BRAKE, "power", "held down by a power brake: its clock is 65 %"),
    "a limit of its own": (FREE, OWN_LIMIT, "power", "held down by its power limit: its clock is 24 %"),
    "heat, in step": (WAITS_IN_STEP, HEAT, "heat", "held down by heat: its clock is 47 %"),
    "heat, each alone": (FREE, HEAT, "heat", "held down by heat: its clock is 47 %"),
}
"""What seven GPUs of a pod do while an eighth is held down, by what, and what is said of that one."""
AT_THE_LIMIT = FREE | {"power_w": 695, "throttle": ["sw_power_cap"]}
NOT_HELD = {
    "all at their limit, as chips differ": [AT_THE_LIMIT | {"sm_clock_mhz": 1500 + 25 * i} for i in range(8)],
    "lower, and nothing holds it down": [FREE] * 7 + [FREE | {"sm_clock_mhz": 1300}],
    "held down, by little": [FREE] * 7 + [FREE | {"sm_clock_mhz": 1600, "throttle": ["sw_power_cap"]}],
    "held down while it has nothing to do": [FREE] * 7 + [IDLES | BRAKE | {"power_w": 90}],
}
"""What eight GPUs of a pod do of which none is told to be held down alone."""


@pytest.mark.parametrize("name", slow_after(1, HELD_DOWN))
def test_a_gpu_that_is_held_down_alone_is_named(name: str) -> None:
    others, held, expected, words = HELD_DOWN[name]
    said = insights(lambda _at: [*[others] * 3, FREE | held, *[others] * 4])
    of_gpu = {(anomaly.kind, anomaly.gpu) for one in said for anomaly in one.anomalies}
    assert of_gpu == {("slow_gpu", "gpu-a/3")}
    first = next(one for one in said if one.anomalies)
    assert first.ts_ms <= 130_000
    assert (first.anomalies[0].advice or "").startswith(f"gpu-a/3 is {words}")
    assert (said[-1].bottleneck, said[-1].evidence["held_gpus"]) == (expected, 1)
    assert f"{expected} holds down 1 of 8 GPUs" in (said[-1].advice or "")


@pytest.mark.parametrize("name", slow_after(1, NOT_HELD))
def test_of_gpus_of_which_none_is_held_down_alone_nothing_is_claimed(name: str) -> None:
    said = insights(lambda _at: NOT_HELD[name])
    assert not [anomaly for one in said for anomaly in one.anomalies]
    assert not [one for one in said if "held_gpus" in one.evidence]


def of_ranks(ranks: list[Figures], seconds: int = 180) -> Iterator[ConsumerRecord]:
    """Pods of a job on a node and a GPU each."""
    chance = np.random.default_rng(3)
    job = {"api_version": "batch/v1", "kind": "Job", "name": "bert", "uid": "j1"}
    for rank in range(len(ranks)):
        pod = {"v": 1, "uid": f"uid-{rank}", "namespace": "ml", "name": f"w-{rank}", "node": f"n{rank}",
               "phase": "Running", "job": job}  # fmt: skip
        yield record("pods", f"uid-{rank}", pod)
    for at in range(1, seconds + 1):
        for rank, figures in enumerate(ranks):
            noisy = {
                name: round(min(value * chance.normal(1, 0.01), 100), 1) if name.endswith("_pct") else value
                for name, value in figures.items()
            }  # fmt: skip
            process = {"pid": 1, "pod_uid": f"uid-{rank}", "mem_used_bytes": 60e9}
            own = gpu(0, **noisy, processes=[process], mem_used_bytes=60e9, mem_total_bytes=80e9,
                      power_limit_w=LIMIT_W)  # fmt: skip
            tick: Figures = {"node": f"n{rank}", "ts_ms": 1000 * at}
            yield record("nvml-samples", f"n{rank}", nvml(at, [own], **tick), at)
            containers = [{"id": "c", "cpu_util_pct": 240, "mem_used_bytes": 8e9}]
            pods = [{"uid": f"uid-{rank}", "containers": containers}]
            yield record("cgroup-samples", f"n{rank}", cgroup(at, {}, pods, **tick), at)


def of_job(ranks: list[Figures]) -> Insight:
    """What is said of the job last."""
    pipeline = LocalPipeline(stages(Settings()))
    told = [out for one in of_ranks(ranks) for out in pipeline.feed(one)] + pipeline.flush()
    said = [decode(Insight, out.value or b"", "insights") for out in told if out.topic == "insights"]
    return [insight for insight in said if insight.subject.kind == "job"][-1]


RANKS = {
    "a power brake": (WAITS_IN_STEP, BRAKE, "power", "power holds down 1 of 8 GPUs"),
    "a power brake, each alone": (FREE, BRAKE, "power", "power holds down 1 of 8 GPUs"),
    "heat": (WAITS_IN_STEP, HEAT, "heat", "heat holds down 1 of 8 GPUs"),
    "all at their limit": (AT_THE_LIMIT, {}, "power", "the power limit holds"),
    "none": (FREE, {}, "gpu", "the GPU is the limit"),
}
"""What seven pods with a GPU each do while that of an eighth is held down, by what, and what is said of the
job."""


@pytest.mark.parametrize("name", slow_after(1, RANKS))
def test_a_rank_that_is_held_down_alone_is_named_without_any_past(name: str) -> None:
    others, held, expected, words = RANKS[name]
    said = of_job([*[others] * 3, FREE | held, *[others] * 4])
    assert (said.bottleneck, said.evidence.get("held_gpus")) == (expected, 1 if "1 of 8" in words else None)
    assert (said.advice or "").startswith(words)
    assert ("w-3" in (said.advice or "")) == ("1 of 8" in words)


HANGS_S, AT_S = 3300, 2400
TRAINS_ALONE = TRAINS | {"gpu_util_pct": 95}


def hangs(at: int) -> list[Figures]:
    """It trains, and then all ranks wait for one that does not come."""
    return [SPINS | {"gpu_util_pct": 100}] * 2 if at >= AT_S else [TRAINS_ALONE] * 2


def zeros(at: int) -> list[Figures]:
    """It trains; then its counters say nothing at all, while power is what it was."""
    return [TRAINS_ALONE | (dict.fromkeys(COUNTERS, 0) if at >= AT_S else {})] * 2


@pytest.mark.slow
@pytest.mark.parametrize(("script", "expected"), [(hangs, {"hang"}), (zeros, set())], ids=["hang", "zeros"])
def test_a_hang_needs_more_signs_than_counters_of_zero(script: Script, expected: set[str]) -> None:
    said = insights(script, HANGS_S)
    assert {anomaly.kind for one in said for anomaly in one.anomalies} == expected
