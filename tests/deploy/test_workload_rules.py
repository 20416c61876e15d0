"""Goal: each alert on workloads fires when it should, only then, and says what a person needs."""

import re
from typing import Any

import pytest
import yaml

from dutycycle.telemetry.metrics import PREFIX
from sinks.prometheus.metrics import SERIES
from tests.support.deploy.promtool import RULE_FOLDER, Series, alerts, answers, judge, named, series

RULES = "workloads.yml"
GROUPS = yaml.safe_load((RULE_FOLDER / RULES).read_text())["groups"]
ALL = [rule for group in GROUPS for rule in group["rules"]]
POD = {"namespace": "ml", "pod": "bert-0", "uid": "u", "node": "a", "job_kind": "Job", "job_name": "bert"}
GPU = {"node": "a", "gpu": "0", "uuid": "GPU-1"}
JOB = {"namespace": "ml", "job_kind": "Job", "job_name": "bert", "job_uid": "j"}
DCGM = {"Hostname": "a", "gpu": "0", "UUID": "GPU-1"}

pytestmark = pytest.mark.prometheus


def pod(name: str, values: str, **more: str) -> Series:
    return series(f"dutycycle_pod_{name}", values, **POD, **more)


def gpu(name: str, values: str, **more: str) -> Series:
    return series(f"dutycycle_gpu_{name}", values, **GPU, **more)


def job(name: str, values: str) -> Series:
    return series(f"dutycycle_job_{name}", values, **JOB)


def dcgm(name: str, values: str) -> Series:
    return series(f"DCGM_FI_DEV_{name}", values, **DCGM)


UTIL = {"metric": "gpu_util_pct"}
ALIVE = pod("gpu_utilization_ratio", "1x600")
FIRES = {
    "idle, with its cost": (
        "PodHoldsIdleGpu", [pod("idle_seconds", "0+60x60"), pod("idle_cost", "0+0.05x60")], 40,
        "ml/bert-0 holds GPUs of a and has not used them for 40m 0s, at a cost of 2.00",
    ),
    "idle, without a price": (
        "PodHoldsIdleGpu", [pod("idle_seconds", "0+60x60")], 40,
        "ml/bert-0 holds GPUs of a and has not used them for 40m 0s",
    ),
    "held and never touched": (
        "PodHoldsUntouchedGpu", [pod("gpu_untouched_seconds_total", "0+60x60", gpu="0")], 40,
        "ml/bert-0 holds GPU 0 of a and has run no process on it for half an hour",
    ),
    "memory": (
        "MemoryRunsOut", [pod("memory_exhausted_seconds", "1500-60x20", memory="gpu")], 5,
        "The gpu memory of ml/bert-0 is full in 20m 0s, if it grows on as it does",
    ),
    "a hung training": (
        "CycleLost", [pod("cyclic", "1x30 0x60", **UTIL), ALIVE], 45,
        "ml/bert-0 has stopped stepping: its GPUs had a cycle, and have had none for 10 minutes",
    ),
    "slower steps": (
        "CycleSlower", [pod("cycle_period_seconds", "10x60 12.5x60", **UTIL)], 73,
        "A step of ml/bert-0 takes 12.5 s, over 20 % longer than it used to",
    ),
    "a training that steps less often": (
        "TrainingSlower", [pod("training_steps_per_second", "2x60 1.5x60")], 73,
        "ml/bert-0 trains at 1.5 steps a second, over 20 % fewer than it used to",
    ),
    "heat": (
        "GpuThrottledByHeat", [gpu("throttled", "0x5 1x60", reason="heat")], 20,
        "GPU 0 of a is too hot: its clocks were reduced for 100% of 10 minutes",
    ),
    "power": (
        "GpuThrottledByPower", [gpu("throttled", "0x5 1x60", reason="power")], 40,
        "GPU 0 of a is at its power limit: its clocks were reduced for 100% of 10 minutes",
    ),
    "imbalance": (
        "RanksImbalanced", [job("rank_gap_ratio", "0.4x60"), job("pods", "4x60")], 15,
        "The pods of Job ml/bert wait for one another: the busiest works 40% more than the least busy",
    ),
    "an anomaly": (
        "WorkloadAnomaly", [series("dutycycle_job_anomaly", "1x60", **JOB, anomaly="hang")], 5,
        "ml/bert: hang; `kubectl dutycycle why` says what and where",
    ),
    "xid": ("GpuXid", [dcgm("XID_ERRORS", "0x5 79x60")], 8, "GPU 0 of a reported Xid 79"),
    "an xid of a newer exporter": (
        "GpuXid", [dcgm("XID_ERROR", "0x5 79x60")], 8, "GPU 0 of a reported Xid 79"
    ),
    "an xid after another": (
        "GpuXid", [dcgm("XID_ERRORS", "63x90 79x60")], 100, "GPU 0 of a reported Xid 79"
    ),
    "an xid that ends its pod": (
        "GpuXid",
        [dcgm("XID_ERRORS", "_x6 79x60"),
         series("DCGM_FI_DEV_XID_ERRORS", "0x5 stale", **DCGM, pod="bert-0")],
        8, "GPU 0 of a reported Xid 79",
    ),
    "a broken gpu": (
        "GpuUnhealthy",
        [gpu("health", "0x5 3x60"), gpu("finding", "1x60", level="reset", reason="Xid 79", action="restart")],
        10, "GPU 0 of a is not healthy: Xid 79; restart",
    ),
    "a gpu to watch": (
        "GpuToWatch",
        [gpu("health", "0x5 1x90"), gpu("finding", "_x5 1x90", level="watch", reason="R", action="A")],
        70, "GPU 0 of a works, and wants a look: R; A",
    ),
    "ecc": (
        "GpuMemoryErrors", [dcgm("ECC_DBE_VOL_TOTAL", "0x5 1x60")], 8,
        "GPU 0 of a has memory errors that cannot be corrected",
    ),
    "remapping": (
        "GpuMemoryErrors", [dcgm("ROW_REMAP_FAILURE", "0x5 1x60")], 8,
        "GPU 0 of a has memory errors that cannot be corrected",
    ),
    "remapping, by a newer exporter": (
        "GpuMemoryErrors", [dcgm("ROW_REMAP_FAILED", "0x5 1x60")], 8,
        "GPU 0 of a has memory errors that cannot be corrected",
    ),
}  # fmt: skip
SILENT = {
    "a short pause": ("PodHoldsIdleGpu", [pod("idle_seconds", "0+60x20 0x60")], 40),
    "not long enough": ("PodHoldsIdleGpu", [pod("idle_seconds", "0+60x60")], 25),
    "one that works": ("PodHoldsIdleGpu", [pod("idle_seconds", "0x60")], 40),
    "no longer there": ("PodHoldsIdleGpu", [pod("idle_seconds", "0+60x30 stale")], 40),
    "touched after a quarter of an hour": (
        "PodHoldsUntouchedGpu", [pod("gpu_untouched_seconds_total", "0+60x15 900x60", gpu="0")], 40,
    ),
    "memory for hours": ("MemoryRunsOut", [pod("memory_exhausted_seconds", "7200x60", memory="gpu")], 30),
    "memory that is freed": (
        "MemoryRunsOut", [pod("memory_exhausted_seconds", "600x1 stale", memory="gpu")], 8,
    ),
    "it never had a cycle": ("CycleLost", [pod("cyclic", "0x90", **UTIL), ALIVE], 80),
    "a pause between epochs": ("CycleLost", [pod("cyclic", "1x30 0x5 1x60", **UTIL), ALIVE], 45),
    "it has ended": ("CycleLost", [pod("cyclic", "1x30 0x3 stale", **UTIL)], 45),
    "the cycle of something else": (
        "CycleLost", [pod("cyclic", "1x30 0x60", metric="gpu_mem_used_bytes"), ALIVE], 45,
    ),
    "a training a little slower": ("TrainingSlower", [pod("training_steps_per_second", "2x60 1.7x60")], 73),
    "a training faster": ("TrainingSlower", [pod("training_steps_per_second", "2x60 4x60")], 73),
    "a little slower": ("CycleSlower", [pod("cycle_period_seconds", "10x60 11.9x60", **UTIL)], 73),
    "faster": ("CycleSlower", [pod("cycle_period_seconds", "10x60 8x60", **UTIL)], 73),
    "no past yet": ("CycleSlower", [pod("cycle_period_seconds", "10+5x14", **UTIL)], 14),
    "warm now and then": (
        "GpuThrottledByHeat", [gpu("throttled", "0x9 1 0x9 1 0x9 1", reason="heat")], 30,
    ),
    "power for heat": ("GpuThrottledByHeat", [gpu("throttled", "1x60", reason="power")], 30),
    "heat for power": ("GpuThrottledByPower", [gpu("throttled", "1x60", reason="heat")], 30),
    "even ranks": ("RanksImbalanced", [job("rank_gap_ratio", "0.1x60"), job("pods", "4x60")], 30),
    "one pod": ("RanksImbalanced", [job("rank_gap_ratio", "0.9x60"), job("pods", "1x60")], 30),
    "one that its job tells": ("WorkloadAnomaly", [pod("anomaly", "1x60", anomaly="hang")], 5),
    "an xid of long ago": ("GpuXid", [dcgm("XID_ERRORS", "0x5 79x200")], 80),
    "an xid of long ago, under the labels of the next pod": (
        "GpuXid",
        [series("DCGM_FI_DEV_XID_ERRORS", "79x90 stale", **DCGM, pod="bert-0"),
         series("DCGM_FI_DEV_XID_ERRORS", "_x91 79x60", **DCGM, pod="next-0")], 100,
    ),
    "a fault of the program": ("GpuXid", [dcgm("XID_ERRORS", "0x5 31x60")], 8),
    "a gpu in order": ("GpuUnhealthy", [gpu("health", "0x60")], 20),
    "a gpu to watch is not broken": ("GpuUnhealthy", [gpu("health", "1x60")], 20),
    "a broken gpu is not only one to watch": ("GpuToWatch", [gpu("health", "3x90")], 80),
    "a gpu that was reset": ("GpuUnhealthy", [gpu("health", "3x5 0x60")], 20),
    "no error": (
        "GpuMemoryErrors", [dcgm("ECC_DBE_VOL_TOTAL", "3x60"), dcgm("ROW_REMAP_FAILURE", "0x60")], 20,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FIRES.values(), ids=FIRES.keys())
def test_it_fires_and_says_what(case: tuple[str, list[Series], int, str], tmp_path: Any) -> None:
    name, given, minute, summary = case
    severity = next(rule["labels"]["severity"] for rule in ALL if rule.get("alert") == name)
    labels = dict(re.findall(r'(\w+)="([^"]*)"', given[0]["series"]))
    expected = {"exp_labels": labels | {"severity": severity}, "exp_annotations": {"summary": summary}}
    judge(tmp_path, RULES, given, alerts(name, minute, expected))


@pytest.mark.parametrize("case", SILENT.values(), ids=SILENT.keys())
def test_it_stays_silent(case: tuple[str, list[Series], int], tmp_path: Any) -> None:
    name, given, minute = case
    judge(tmp_path, RULES, given, alerts(name, minute))


def test_every_alert_has_a_case_of_each_kind() -> None:
    names = {rule["alert"] for rule in ALL if "alert" in rule}
    assert names == {case[0] for case in FIRES.values()} == {case[0] for case in SILENT.values()}


RECORDS = {
    "ours by pod": (
        "DCGM_FI_DEV_GPU_UTIL_AVG",
        [pod("gpu_utilization_ratio", "0.25x20"),
         series("DCGM_FI_DEV_GPU_UTIL", "99x20", gpu="0", namespace="ml", pod="bert-0")],
        [({"namespace": "ml", "pod": "bert-0"}, 25)],
    ),
    "dcgm-exporter alone": (
        "DCGM_FI_DEV_GPU_UTIL_AVG",
        [series("DCGM_FI_DEV_GPU_UTIL", "20x20", gpu="0", namespace="ml", pod="p"),
         series("DCGM_FI_DEV_GPU_UTIL", "40x20", gpu="1", namespace="ml", pod="p"),
         series("DCGM_FI_DEV_GPU_UTIL", "7x20", gpu="0", namespace="mon", pod="dcgm", exported_namespace="ml",
                exported_pod="q"),
         series("DCGM_FI_DEV_GPU_UTIL", "9x20", gpu="3")],
        [({"namespace": "ml", "pod": "p"}, 30), ({"namespace": "ml", "pod": "q"}, 7)],
    ),
    "exporters of three versions": (
        "DCGM_FI_DEV_GPU_UTIL_AVG",
        [series("DCGM_FI_DEV_GPU_UTIL_RATIO", "0.2x20", instance="a", namespace="ml", pod="p"),
         series("DCGM_FI_DEV_GPU_UTIL_RATIO", "1x20", instance="b", namespace="ml", pod="q"),
         series("DCGM_FI_DEV_GPU_UTIL_RATIO", "40x20", gpu="0", instance="c", namespace="ml", pod="r"),
         series("DCGM_FI_DEV_GPU_UTIL_RATIO", "1x20", gpu="1", instance="c", namespace="ml", pod="s"),
         series("DCGM_FI_DEV_GPU_UTIL", "30x20", instance="d", namespace="ml", pod="t")],
        [({"namespace": "ml", "pod": "p"}, 20), ({"namespace": "ml", "pod": "q"}, 100),
         ({"namespace": "ml", "pod": "r"}, 40), ({"namespace": "ml", "pod": "s"}, 1),
         ({"namespace": "ml", "pod": "t"}, 30)],
    ),
    "one GPU of a newer exporter": (
        "dcgm:gpu_util_pct", [series("DCGM_FI_DEV_GPU_UTIL_RATIO", "0.2x20", gpu="0")], [({"gpu": "0"}, 20)],
    ),
    "the last xid, whose ever the GPU was": (
        "gpu:xid:last",
        [series("DCGM_FI_DEV_XID_ERROR", "13x5 stale", **DCGM, pod="p"), dcgm("XID_ERROR", "_x6 79x20")],
        [(DCGM, 79)],
    ),
    "busy GPUs of a job": (
        "job:dutycycle_pod_gpu_busy:rate5m",
        [pod("gpu_busy_seconds_total", "0+30x20", gpu="0"),
         pod("gpu_busy_seconds_total", "0+60x20", gpu="1")],
        [({"namespace": "ml", "job_kind": "Job", "job_name": "bert"}, 1.5)],
    ),
    "a counter that began anew": (
        "namespace:dutycycle_pod_gpu_busy:rate5m",
        [pod("gpu_busy_seconds_total", "0+60x12 0+60x7", gpu="0")],
        [({"namespace": "ml"}, 1)],
    ),
    "busy GPUs of KAI's queues": (
        "queue:dutycycle_pod_gpu_busy:rate5m",
        [pod("gpu_busy_seconds_total", "0+30x20", gpu="0", label_kai_scheduler_queue="vision"),
         pod("gpu_busy_seconds_total", "0+60x20", gpu="1", label_kai_scheduler_queue="vision"),
         pod("gpu_busy_seconds_total", "0+0x20", gpu="2", label_kai_scheduler_queue="idle"),
         pod("gpu_busy_seconds_total", "0+60x20", gpu="3")],
        [({"queue_name": "vision"}, 1.5), ({"queue_name": "idle"}, 0)],
    ),
    "watts of a namespace": (
        "namespace:dutycycle_pod_gpu_energy_watts:rate5m",
        [pod("gpu_energy_joules_total", "0+18000x20", gpu="0")], [({"namespace": "ml"}, 300)],
    ),
    "busy GPU": ("gpu:dutycycle_gpu_busy:rate5m", [gpu("busy_seconds_total", "0+45x20")], [(GPU, 0.75)]),
    "the usual step": (
        "pod:dutycycle_pod_cycle_period_seconds:median6h",
        [pod("cycle_period_seconds", "10x10 99x30", metric="gpu_util_pct")], [(POD | UTIL, 10)],
    ),
    "the usual rate of steps": (
        "pod:dutycycle_pod_training_steps_per_second:median6h",
        [pod("training_steps_per_second", "2x10 9x30")], [(POD, 2)],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", RECORDS.values(), ids=RECORDS.keys())
def test_what_is_recorded(
    case: tuple[str, list[Series], list[tuple[dict[str, str], float]]], tmp_path: Any
) -> None:
    name, given, expected = case
    samples = {named(name, labels): value for labels, value in expected}
    judge(tmp_path, RULES, given, answers(name, 19, samples))


def test_every_record_has_a_case() -> None:
    assert {rule["record"] for rule in ALL if "record" in rule} == {case[0] for case in RECORDS.values()}


def test_rules_name_series_that_there_are() -> None:
    known = {PREFIX + one.name for one in SERIES}
    recorded = {rule["record"] for rule in ALL if "record" in rule}
    named = {name for rule in ALL for name in re.findall(r"[\w:]*dutycycle_[\w:]+", rule["expr"])}
    assert named <= known | recorded
