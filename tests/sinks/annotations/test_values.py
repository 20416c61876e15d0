"""Annotation values against the contract's own examples, and what absence makes of them."""

import json
from typing import Any

import pytest
from msgspec.structs import replace

from dutycycle.contract.metering import SET_BACK_MS
from dutycycle.contract.records.derived import Forecast, PodOfJob, TrendMetric
from dutycycle.contract.records.parts import NodePart, PodTrend, WorkloadState
from dutycycle.contract.records.samples import Gpu, GpuProcess
from dutycycle.contract.units import rfc3339
from dutycycle.kubectl.annotations import ours
from sinks.annotations.core.desired import Annotations
from sinks.annotations.core.diff import Present, diff
from sinks.annotations.core.node import gpu_static
from sinks.annotations.core.targets import Target, node_target, pod_target
from sinks.annotations.core.values import gigabytes, number, significant
from tests.support.sinks import made
from tests.support.sinks.made import K80, K80_BYTES, node_part, sample

NODE = Target("node", "v1", "Node", "gpu-a")
MAXIMA = {"gpu_util_pct": 100.0, "mem_copy_util_pct": 66.0}
NOW = ("mem_used", "mem_free", "process_cnt", "pid_mem")
"""What a sample alone says of a GPU."""


def wanted(*records: Any, target: Target | None = NODE) -> dict[str, Any]:
    """What is wanted after the records, parsed, by name."""
    state = Annotations("dutycycle.io")
    for record in records:
        state.take(record)
    assert target is not None
    found = state.wanted(target, Present({})).texts
    assert all(key.startswith("dutycycle.io/") for key in found)
    return ours(found, "dutycycle.io")


def test_a_node_as_in_the_contract() -> None:
    other = Gpu(
        uuid="GPU-0", index=0, model="Tesla K80", mem_total_bytes=K80_BYTES, pcie_gen=3, pcie_width=16
    )
    records = (
        sample(K80, other),
        node_part(cyclic=True, period_s=13.24, slope_per_s=-0.4 / 3600, maxima=MAXIMA | {"temp_c": 99}),
    )
    assert wanted(*records) == {
        "gpu-static": {"count": 2, "model": "Tesla K80", "mem_size": "12GB", "pcie_gen_width": "3x16"},
        "gpu-0": {},
        "gpu-1": {
            "mem_used": "11.2GB", "mem_free": "0.8GB", "process_cnt": 1, "pid_mem": [[18477, "11094MB"]],
            "cyclic": True, "period_s": 13.2, "max_gpu_util": 100, "max_mem_util": 66,
            "trend_pct_per_h": -0.4,
        },
        "gpu_count": 2, "gpu_util_max": 100,
    }  # fmt: skip
    state = Annotations("dutycycle.io")
    state.take(sample(K80))
    text = state.wanted(NODE, Present({})).texts["dutycycle.io/gpu-static"]
    assert text == '{"count":1,"model":"Tesla K80","mem_size":"12GB","pcie_gen_width":"3x16"}'


def test_a_pod_as_in_the_contract() -> None:
    record = made.pod_peaks(
        last_ms=1_700_000_000_999,
        metrics={
            "cpu_util_pct": made.peak(271.816, p95=240), "mem_used_bytes": made.peak(245_700_000),
            "net_rx_bytes_per_s": made.peak(7_800_000), "net_tx_bytes_per_s": made.peak(1),
            "io_read_bytes_per_s": made.peak(0), "io_write_bytes_per_s": made.peak(0),
        },
        processes={"gpu-a/0/827505": {"gpu_util_pct": made.peak(27), "mem_copy_util_pct": made.peak(11)}},
    )  # fmt: skip
    assert wanted(record, target=pod_target(record.pod)) == {
        "gpu_util": {"gpu_0_827505": 27},
        "gpu_mem_util": {"gpu_0_827505": 11},
        "max_cpu_util": 271.82,
        "cpu_util_p95": 240,
        "max_cpu_mem_mb": 245.7,
        "max_network_mbps": 62.4,
        "max_disk_io": 0,
        "updated": "2023-11-14T22:13:20Z",
    }


def test_a_job_as_in_the_contract() -> None:
    pod = PodOfJob(
        node="gpu-a",
        metrics={
            "cpu_util_pct": made.peak(271.82, p95=240), "mem_used_bytes": made.peak(245.7e6),
            "net_tx_bytes_per_s": made.peak(7_800_000), "io_read_bytes_per_s": made.peak(0),
        },
        gpus={"gpu-a/1": {"gpu_util_pct": made.peak(100), "mem_used_bytes": made.peak(11_669e6)}},
    )  # fmt: skip
    record = made.job_peaks(pods={"bert-worker-0": pod})
    target = Target("job", "batch/v1", "Job", "name-of-job-1", "default", "job-1")
    assert wanted(record, target=target) == {
        "bert-worker-0": {
            "gpu-a-gpu-1_util": 100, "gpu-a-gpu-1_mem_mb": 11669, "cpu_util": 271.82,
            "cpu_util_p95": 240, "cpu_mem_mb": 245.7, "network_mbps": 62.4, "disk_io": 0,
        }
    }  # fmt: skip


SLOW = made.insight("training", "input", "More loader processes.")


def test_what_a_pod_does_stands_beside_its_peaks() -> None:
    target = pod_target(made.pod("uid-1"))
    for order in ((made.pod_peaks(), SLOW), (SLOW, made.pod_peaks())):
        found = wanted(*order, target=target)
        assert (found["kind"], found["bottleneck"]) == ("training", "input")
        assert found["advice"] == "More loader processes."
        assert found["gpu_util"] == {"gpu_0_4711": 95}


def test_alone_it_is_no_reason_to_write() -> None:
    state = Annotations("dutycycle.io")
    assert state.take(SLOW) is None, "the peaks that are on the object would be taken away"
    target = state.take(made.pod_peaks())
    assert target is not None
    assert "dutycycle.io/kind" in state.wanted(target, Present({})).texts


def test_plain_values_of_a_pod_s_gpus() -> None:
    metrics = {"gpu_util_pct": made.peak(97, 40.4, p95=90), "gpu_mem_used_bytes": made.peak(11.669e9)}
    record = made.pod_peaks(metrics=metrics)
    found = wanted(record, target=pod_target(record.pod))
    names = ("gpu_util_max", "gpu_util_mean", "gpu_util_p95", "gpu_mem_max_mb")
    assert [found.get(name) for name in names] == [97, 40, 90, 11669]


TREND = PodTrend(ts_ms=1, metrics={
    metric: TrendMetric(level=1, slope_per_s=0, forecast=tuple(
        Forecast(horizon_s=at, value=value, p05=0, p95=1e10) for at, value in ahead
    ))
    for metric, ahead in (
        ("gpu_mem_used_bytes", ((10, 2e9), (300, 2e9))), ("gpu_util_pct", ((10, 70.2), (300, 71.9))),
    )
})  # fmt: skip
STATES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "a cycle": (
        {"period_s": 13.24, "confidence": 0.876},
        {"cycle_period_s": "13.2", "cycle_confidence": "0.88"},
    ),
    "a training that reports": (
        {
            "period_s": 2, "confidence": 0.99, "period_source": "reported", "cycle_steps": 1,
            "steps_per_s": 0.5, "samples_per_s": 128.04,
        },
        {
            "cycle_period_s": "2", "cycle_confidence": "0.99", "cycle_source": "reported", "cycle_steps": "1",
            "steps_per_s": "0.5", "samples_per_s": "128",
        },
    ),
    "memory runs out": ({"mem_full_ms": 1_700_000_000_000}, {"mem_full_at": "2023-11-14T22:13:20Z"}),
    "a GPU's memory runs out": (
        {"gpu_mem_full_ms": 1_700_000_000_000},
        {"gpu_mem_full_at": "2023-11-14T22:13:20Z"},
    ),
    "forecasts": (
        {"trends": {"nvml": TREND, "cgroup": PodTrend(ts_ms=1, metrics={})}},
        {
            "level_forecast": '{"gpu_util_pct":{"10s":70,"300s":72},'
            '"gpu_mem_used_mb":{"10s":2000,"300s":2000}}'
        },
    ),
    "nothing": ({}, {}),
}  # fmt: skip


@pytest.mark.parametrize(("state", "expected"), STATES.values(), ids=STATES.keys())
@pytest.mark.parametrize("kind", ["pod", "job"])
def test_what_holds_now_stands_there_as_plain_values(
    kind: str, state: dict[str, Any], expected: dict[str, str]
) -> None:
    """And goes with the next insight, but not where a worker has just begun and knows none."""
    names = (
        "cycle_period_s", "cycle_confidence", "cycle_source", "cycle_steps", "steps_per_s", "samples_per_s",
        "mem_full_at", "gpu_mem_full_at", "level_forecast",
    )  # fmt: skip
    old = Present({f"dutycycle.io/{name}": "7" for name in names})
    annotations = Annotations("dutycycle.io")
    target = annotations.take(made.pod_peaks() if kind == "pod" else made.job_peaks(job=made.JOB))
    assert target is not None
    before = annotations.wanted(target, old)
    untouched = diff(kind, "dutycycle.io", before.texts, old.ours, before.surplus)
    assert not untouched.keys() & old.ours.keys()
    insight = (
        made.insight("training", "gpu", None)
        if kind == "pod"
        else made.job_insight("training", "gpu", None, made.JOB)
    )
    annotations.take(replace(insight, state=WorkloadState(seen_ms=1, **state)))
    now = annotations.wanted(target, old)
    patch = diff(kind, "dutycycle.io", now.texts, old.ours, now.surplus)
    after = {name: patch.get(f"dutycycle.io/{name}", "7") for name in names}
    assert {name: text for name, text in after.items() if text is not None} == expected


POD_CASES = {
    "nothing was measured": ({"metrics": {}, "gpus": {}, "processes": None}, {}),
    "idle": ({"metrics": {"cpu_util_pct": made.peak(0)}, "gpus": {}, "processes": None}, {"max_cpu_util": 0}),
    "processes unknown: the GPU itself": (
        {"metrics": {}, "gpus": {"n/1": {"gpu_util_pct": made.peak(97)}}, "processes": None},
        {"gpu_util": {"gpu_1": 97}},
    ),
    "one GPU measured, one allocated, one unknown": (
        {
            "metrics": {},
            "gpus": {"n/0": {"gpu_util_pct": made.peak(97)}, "n/1": {"gpu_util_pct": made.peak(50)}},
            "processes": {"n/0/7": {"gpu_util_pct": made.peak(97)}},
            "attribution": {"n/0": "measured", "n/1": "allocated", "n/10": "unknown"},
        },
        {
            "gpu_util": {"gpu_0_7": 97, "gpu_1": 50},
            "gpu_attribution": {"gpu_0": "measured", "gpu_1": "allocated", "gpu_10": "unknown"},
        },
    ),
    "a process of which only the pod is known": (
        {
            "metrics": {},
            "gpus": {"n/0": {"gpu_util_pct": made.peak(97)}},
            "processes": {"n/0/0": {"gpu_util_pct": made.peak(97)}},
        },
        {"gpu_util": {"gpu_0": 97}},
    ),
    "a process without utilization beside one with": (
        {
            "metrics": {},
            "gpus": {},
            "processes": {"n/0/7": {"mem_used_bytes": made.peak(1)}, "n/0/8": {"gpu_util_pct": made.peak(0)}},
        },
        {"gpu_util": {"gpu_0_8": 0}},
    ),
}


@pytest.mark.parametrize(("fields", "expected"), POD_CASES.values(), ids=POD_CASES.keys())
def test_absent_and_idle_are_different(fields: dict[str, Any], expected: dict[str, Any]) -> None:
    record = made.pod_peaks(**fields)
    found = wanted(record, target=pod_target(record.pod))
    assert {name: value for name, value in found.items() if name != "updated"} == expected
    assert ("updated" in found) == bool(expected)


PROCESSES = {
    "not known": (None, {}),
    "none": ((), {"process_cnt": 0, "pid_mem": []}),
    "one": ((GpuProcess(pid=7, mem_used_bytes=5e6),), {"process_cnt": 1, "pid_mem": [[7, "5MB"]]}),
    "one, its memory unknown": ((GpuProcess(pid=7),), {"process_cnt": 1, "pid_mem": []}),
    "only their pods": ((GpuProcess(pid=0, pod_uid="u"), GpuProcess(pid=0)), {}),
}


@pytest.mark.parametrize(("processes", "expected"), PROCESSES.values(), ids=PROCESSES.keys())
def test_processes_that_are_not_known_are_not_counted(
    processes: tuple[GpuProcess, ...] | None, expected: dict[str, Any]
) -> None:
    assert wanted(sample(Gpu(uuid="g", index=0, processes=processes)))["gpu-0"] == expected


def test_many_processes_leave_the_largest() -> None:
    processes = {f"n/0/{pid}": {"gpu_util_pct": made.peak(pid % 101)} for pid in range(1, 1001)}
    record = made.pod_peaks(processes=processes)
    found = wanted(record, target=pod_target(record.pod))["gpu_util"]
    assert len(found) == 64
    assert min(found.values()) == 93


PARTS = {
    "nothing is known": (node_part(), {}),
    "the newest part counts": (
        node_part(cyclic=False, maxima={"gpu_util_pct": 40.4}),
        {"cyclic": False, "max_gpu_util": 40},
    ),
    "it is of another GPU": (node_part(gpu="GPU-9", cyclic=True), {}),
}


@pytest.mark.parametrize(("part", "expected"), PARTS.values(), ids=PARTS.keys())
def test_the_newest_part_of_a_node(part: NodePart, expected: dict[str, Any]) -> None:
    before = node_part(cyclic=True, period_s=13.24, maxima=MAXIMA)
    found = wanted(before, sample(K80), part)["gpu-1"]
    assert {name: value for name, value in found.items() if name not in NOW} == expected


WRITTEN = {"cyclic": True, "period_s": 7, "max_gpu_util": 90, "max_mem_util": "x", "trend_pct_per_h": -1}
ADOPTED = {
    "no part yet": ([], {"cyclic": True, "period_s": 7, "max_gpu_util": 90, "trend_pct_per_h": -1}),
    "a part has all that is known": (
        [node_part(slope_per_s=1 / 3600, maxima={"gpu_util_pct": 5})],
        {"max_gpu_util": 5, "trend_pct_per_h": 1},
    ),
    "a cycle that has ended": ([node_part(cyclic=False)], {"cyclic": False}),
}  # fmt: skip


@pytest.mark.parametrize(("parts", "expected"), ADOPTED.values(), ids=ADOPTED.keys())
@pytest.mark.parametrize("is_adopted_first", [True, False])
def test_what_was_written_by_an_earlier_process_stays_until_a_part_comes(
    is_adopted_first: bool, parts: list[NodePart], expected: dict[str, Any]
) -> None:
    state = Annotations("dutycycle.io")
    state.take(sample(K80))
    if is_adopted_first:
        state.adopt(NODE, Present({"dutycycle.io/gpu-1": json.dumps(WRITTEN)}))
    for part in parts:
        state.take(part)
    if not is_adopted_first:
        state.adopt(NODE, Present({"dutycycle.io/gpu-1": json.dumps(WRITTEN)}))
    found = json.loads(state.wanted(NODE, Present({})).texts["dutycycle.io/gpu-1"])
    assert {name: value for name, value in found.items() if name not in NOW} == expected


def test_a_gpu_that_is_lost_is_not_wanted_any_more() -> None:
    other = Gpu(uuid="GPU-0", index=0)
    assert wanted(sample(K80, other), sample(other)).keys() == {"gpu-static", "gpu-0", "gpu_count"}


def test_what_comes_late_of_a_node_changes_nothing_until_its_clock_was_set_back() -> None:
    state, now, other = Annotations("dutycycle.io"), sample(K80), Gpu(uuid="GPU-0", index=0)
    assert state.take(now) == NODE
    for behind_ms, changed in ((SET_BACK_MS, None), (SET_BACK_MS + 1, NODE)):
        assert state.take(sample(other, ts_ms=now.ts_ms - behind_ms)) == changed
        static = json.loads(state.wanted(NODE, Present({})).texts["dutycycle.io/gpu-static"])
        assert ("mem_size" in static) == (changed is None)
    newest, begun_anew = node_part(cyclic=True, ts_ms=20), replace(node_part(ts_ms=10), since_ms=1)
    repeated = node_part(ts_ms=10)
    assert [state.take(part) for part in (newest, repeated, begun_anew)] == [NODE, None, NODE]


NODES = {
    "no GPU was ever there": ([sample()], None),
    "all GPUs are lost": ([sample(K80), sample()], {"gpu-static": {"count": 0}, "gpu_count": 0}),
    "no sample yet": ([node_part(cyclic=False, slope_per_s=1)], None),
}


@pytest.mark.parametrize(("records", "expected"), NODES.values(), ids=NODES.keys())
def test_nodes_without_gpus(records: list[Any], expected: dict[str, Any] | None) -> None:
    state = Annotations("dutycycle.io")
    targets = [state.take(record) for record in records]
    target = targets[-1]
    assert (target is not None and state.knows_gpus_of(target.name)) == (expected is not None)
    assert wanted(*records) == (expected or {})


UNNAMED = {
    "outside Kubernetes": made.pod_peaks(pod_fields={"namespace": None}),
    "a path in the name": made.pod_peaks(pod_fields={"name": "../../nodes/x"}),
    "a path in the namespace": made.pod_peaks(pod_fields={"namespace": "a/../.."}),
    "a job outside Kubernetes": made.job_peaks(namespace=None),
}


@pytest.mark.parametrize("record", UNNAMED.values(), ids=UNNAMED.keys())
def test_what_can_be_no_kubernetes_object_is_left_out(record: Any) -> None:
    assert Annotations("dutycycle.io").take(record) is None


def test_node_names_that_kubernetes_does_not_allow() -> None:
    assert node_target("My_Laptop") is None
    assert node_target("gpu-a.example.org") is not None


def test_gpus_that_differ_are_each_named() -> None:
    gpus = [Gpu(uuid="a", index=0, model="A", mem_total_bytes=16e9), Gpu(uuid="b", index=1, model="B")]
    assert gpu_static(gpus) == {"count": 2, "model": "A, B", "mem_size": "16GB"}


def test_figures() -> None:
    assert [number(value, digits) for value, digits in ((99.6, 0), (0.125, 2), (-0.0, 0), (1e20, 0))] == [
        100, 0.12, 0, 10**20,
    ]  # fmt: skip
    assert [significant(value) for value in (13.249, 0.04123, -1234.5, 0.0)] == [13.2, 0.0412, -1230, 0]
    assert [gigabytes(value * 1e9) for value in (0, 0.04, 9.5, 11.997, 80)] == [
        "0GB", "0GB", "9.5GB", "12GB", "80GB",
    ]  # fmt: skip
    assert rfc3339(0) == "1970-01-01T00:00:00Z"
