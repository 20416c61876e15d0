"""Goal: rows for what there is, none for what is not known, 0 for what is idle, an end for what is gone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dutycycle.contract.catalogue import GPU_ROWS, rows_of
from dutycycle.contract.codec import from_plain
from dutycycle.contract.records.derived import Cycle, Trend, WindowAggregate, source_key
from dutycycle.contract.records.health import NodeHealth
from dutycycle.contract.records.insights import Insight
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.processes import ProcessSample
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.topics import TOPICS
from dutycycle.telemetry.metrics import PREFIX, Metrics
from sinks.prometheus.metrics import SERIES
from sinks.prometheus.series import SeriesRows
from sinks.prometheus.view import MetricsView
from tests.support.data.samples import gpu, nvml
from tests.support.servers.prometheus import check

NOW_MS = 1_700_000_000_000
P = {"pid": 1, "pod_uid": "p", "gpu_util_pct": 50, "mem_used_bytes": 6}
POD = {"v": 1, "uid": "p", "namespace": "ml", "name": "bert-0", "node": "a", "phase": "Running",
       "labels": {"team": "blue", "secret": "x"},
       "job": {"api_version": "v1", "kind": "Job", "name": "bert", "uid": "j"}}  # fmt: skip
OF_POD = {"kind": "pod", "node": "a", "pod_uid": "p"}
IDLE = {"v": 1, "subject": OF_POD, "ts_ms": NOW_MS, "since_ms": NOW_MS - 600_000,
        "kind": "idle", "confidence": 1, "bottleneck": "idle", "bottleneck_confidence": 1,
        "evidence": {"idle_s": 600, "idle_cost": 0.5},
        "anomalies": [{"kind": "power", "since_ms": 1}]}  # fmt: skip
SOON = {"horizon_s": 300, "value": 50, "p05": 40, "p95": 60}
UTIL_TREND = {"level": 50, "slope_per_s": 0, "forecast": [SOON]}
MEMORY_TREND = UTIL_TREND | {"exhausts_in_s": 900}
TREND = {"v": 1, "subject": OF_POD, "source": "nvml", "ts_ms": NOW_MS,
         "metrics": {"gpu_mem_used_bytes": MEMORY_TREND, "gpu_util_pct": UTIL_TREND}}  # fmt: skip
CYCLE = {"v": 1, "subject": OF_POD, "source": "nvml", "ts_ms": NOW_MS, "metrics": {
    "gpu_util_pct": {"cyclic": True, "period_s": 13.2, "confidence": 0.9},
    "gpu_mem_used_bytes": {"cyclic": False}}}  # fmt: skip
WINDOW = {"v": 1, "subject": OF_POD, "source": "nvml", "size_ms": 60_000, "start_ms": NOW_MS - 80_000,
          "end_ms": NOW_MS - 20_000,
          "metrics": {"gpu_util_pct": {"count": 60, "mean": 50, "max": 90, "p95": 85}}}  # fmt: skip
FULL = {**{row.field: 1 for row in GPU_ROWS if row.series}, "model": "H200", "gpu_util_pct": 60,
        "mem_copy_util_pct": 10,
        "mem_used_bytes": 8, "mem_total_bytes": 10, "power_w": 300, "power_limit_w": 700, "energy_j": 9,
        "temp_c": 50, "sm_clock_mhz": 1980, "mem_clock_mhz": 1,
        "pcie_rx_bytes_per_s": 1, "pcie_tx_bytes_per_s": 2, "throttle": ["sw_power_cap"],
        "mig": [{"uuid": "M", "profile": "1g", **{row.field: 1 for row in rows_of("nvml", "slice")}}],
        "processes": [P]}  # fmt: skip
LOOP = {"loop": "pytorch", "steps": 2, "seconds": 0.8, "samples": 8}
STEPS = {"v": 1, "node": "a", "collector": "c", "seq": 1, "ts_ms": NOW_MS, "interval_ms": 1000,
         "processes": [{"pid": 1, "pod_uid": "p", "loop": LOOP}]}  # fmt: skip
SICK: dict[str, Any] = {
    "gpu": "GPU-0", "index": 0, "level": "reset", "since_ms": 1, "seen_ms": NOW_MS,
    "reason": "R", "action": "A",
    "findings": [{"kind": "xid", "code": 79, "level": "reset", "reason": "R", "action": "A", "since_ms": 1,
                  "last_ms": 1, "count": 1}],
    "xids": {"79": 1, "13": 4},
    "counters": {
        "ecc_corrected": 3, "ecc_uncorrected": 0, "rows_remapped_corrected": 1, "pcie_replays": 5,
        "rows_remapped_uncorrected": 2, "nvlinks_active": 17, "nvlink_errors": 6, "recovery_action": 2,
        "banks_low": 1, "banks_exhausted": 0,
    },
}  # fmt: skip
HEALTH = {"v": 1, "node": "a", "ts_ms": NOW_MS, "gpus": [SICK]}
USED = {
    "gpu_busy_s": 0.6, "gpu_sm_s": 0.01, "gpu_tensor_s": 0.01, "gpu_working_s": 0.5, "gpu_untouched_s": 0.3,
    "energy_j": 300,
}  # fmt: skip
PART: dict[str, Any] = {
    "v": 1, "node": "a", "ts_ms": NOW_MS, "since_ms": 1, "gpus": {}, "totals": {"GPU-0": USED},
    "pods": [{"pod_uid": "p", "gpu": "GPU-0", "attribution": "measured", "totals": {"gpu_s": 1} | USED}],
}  # fmt: skip
RECORDS: dict[Any, dict[str, Any]] = {
    Pod: POD, Insight: IDLE, Trend: TREND, Cycle: CYCLE, WindowAggregate: WINDOW, ProcessSample: STEPS,
    NodeHealth: HEALTH, NodePart: PART,
}  # fmt: skip


def tell(view: MetricsView, kind: Any, plain: dict[str, Any]) -> None:
    topic = next(topic.name for topic in TOPICS.values() if topic.record is kind)
    record: Any = from_plain(kind, plain, topic)
    key: str = record.uid if kind is Pod else getattr(record, "node", "")
    if kind in (Trend, Cycle):
        key = source_key(record.subject, record.source)
    elif kind in (Insight, WindowAggregate):
        key = record.subject.key
    view.hear(topic, key, record)


def feed(
    view: MetricsView, seq: int, gpus: list[dict[str, Any]], at_ms: int = NOW_MS, node: str = "a"
) -> None:
    plain = nvml(seq, gpus, ts_ms=at_ms, node=node)
    tell(view, NvmlSample, plain)


def full_view() -> MetricsView:
    view = MetricsView(60_000)
    for kind, plain in RECORDS.items():
        tell(view, kind, plain)
    of_job = IDLE | {"subject": {"kind": "job", "job_uid": "j"}, "evidence": {"rank_gap_pct": 40}}
    of_job |= {"anomalies": [{"kind": "hang", "since_ms": 1}]}
    tell(view, Insight, of_job)
    named = {"subject": {"kind": "job", "job_uid": "j"}}
    tell(view, Trend, TREND | named)
    tell(view, Cycle, CYCLE | named)
    of_gpu = {"subject": {"kind": "gpu", "node": "a", "gpu": "GPU-0"}}
    metrics = {"gpu_util_pct": UTIL_TREND, "mem_used_bytes": MEMORY_TREND}
    tell(view, Trend, TREND | of_gpu | {"metrics": metrics})
    tell(view, Cycle, CYCLE | of_gpu)
    tell(view, WindowAggregate, WINDOW | of_gpu)
    feed(view, 2, [gpu(0, **FULL)])
    return view


Found = dict[str, dict[tuple[str, ...], float]]


def shown(
    view: MetricsView, now_ms: int = NOW_MS, most: int = 100, labels: tuple[str, ...] = ("team",)
) -> Found:
    rows = SeriesRows(view, labels, 60, most).rows(now_ms)
    return {metric.name: dict(values) for metric, values in rows}


ON_GPU = ("a", "0", "GPU-0")
ON_POD = ("ml", "bert-0", "p", "a", "Job", "bert", "blue")
ON_JOB = ("ml", "Job", "bert", "j", "blue")
VALUES = {
    "gpu_utilization_ratio": (ON_GPU, 0.6),
    "gpu_sm_clock_hertz": (ON_GPU, 1.98e9),
    "gpu_energy_joules_total": (ON_GPU, 300),
    "gpu_pods": (ON_GPU, 1),
    "gpu_health": (ON_GPU, 3),
    "gpu_finding": ((*ON_GPU, "reset", "R", "A"), 1),
    "gpu_xid_errors_total": ((*ON_GPU, "13"), 4),
    "gpu_ecc_errors_total": ((*ON_GPU, "uncorrected"), 0),
    "gpu_remapped_rows": ((*ON_GPU, "uncorrected"), 2),
    "gpu_nvlinks_active": (ON_GPU, 17),
    "gpu_recovery_action": (ON_GPU, 2),
    "mig_utilization_ratio": ((*ON_GPU, "M", "1g"), 0.01),
    "mig_sm_active_ratio": ((*ON_GPU, "M", "1g"), 0.01),
    "mig_pcie_receive_bytes_per_second": ((*ON_GPU, "M", "1g"), 1),
    "mig_decoder_utilization_ratio": ((*ON_GPU, "M", "1g"), 0.01),
    "pod_gpus": ((*ON_POD, "measured"), 1),
    "pod_gpu_utilization_ratio": (ON_POD, 0.5),
    "pod_gpu_utilization_p95_ratio": (ON_POD, 0.85),
    "pod_gpu_memory_used_bytes": (ON_POD, 6),
    "pod_gpu_power_watts": (ON_POD, 300),
    "pod_gpu_busy_seconds_total": ((*ON_POD, "0", "GPU-0", "measured"), 0.6),
    "gpu_working_seconds_total": (ON_GPU, 0.5),
    "pod_gpu_working_seconds_total": ((*ON_POD, "0", "GPU-0", "measured"), 0.5),
    "pod_gpu_untouched_seconds_total": ((*ON_POD, "0", "GPU-0", "measured"), 0.3),
    "pod_gpu_energy_joules_total": ((*ON_POD, "0", "GPU-0", "measured"), 300),
    "pod_cycle_period_seconds": ((*ON_POD, "gpu_util_pct"), 13.2),
    "pod_memory_exhausted_seconds": ((*ON_POD, "gpu"), 900),
    "pod_gpu_utilization_forecast_ratio": ((*ON_POD, "300s", "p95"), 0.6),
    "pod_idle_seconds": (ON_POD, 600),
    "pod_idle_cost": (ON_POD, 0.5),
    "job_gpus": (ON_JOB, 1),
    "job_gpu_utilization_mean_ratio": (ON_JOB, 0.5),
    "job_rank_gap_ratio": (ON_JOB, 0.4),
    "job_cycle_period_seconds": ((*ON_JOB, "gpu_util_pct"), 13.2),
    "job_gpu_memory_used_forecast_bytes": ((*ON_JOB, "300s", "p05"), 40),
    "job_memory_exhausted_seconds": ((*ON_JOB, "gpu"), 900),
    "job_workload_info": ((*ON_JOB, "idle", "idle"), 1),
    "job_anomaly": ((*ON_JOB, "hang"), 1),
    "pod_anomaly": ((*ON_POD, "power"), 1),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    labels, value = VALUES[name]
    assert shown(full_view())[name][labels] == pytest.approx(value)


def test_a_gpu_that_no_sample_names_has_its_health_and_what_was_not_counted_has_no_series() -> None:
    view = MetricsView(60_000)
    lost = SICK | {"gpu": "GPU-9", "index": 9, "counters": {"ecc_corrected": 1}}
    tell(view, NodeHealth, HEALTH | {"gpus": [lost]})
    found = shown(view)
    assert found["gpu_health"] == {("a", "9", "GPU-9"): 3}
    assert found["gpu_ecc_errors_total"] == {("a", "9", "GPU-9", "corrected"): 1}
    assert not {"gpu_recovery_action", "gpu_nvlinks_active", "gpu_pcie_replays_total"} & found.keys()
    assert shown(view, NOW_MS + 31 * 60_000) == {}


def test_every_series_is_made_and_nothing_is_declared_in_vain() -> None:
    assert set(shown(full_view())) == {one.name for one in SERIES}


def test_promtool_finds_nothing_to_say(tmp_path: Path) -> None:
    metrics = Metrics()
    series = SeriesRows(full_view(), ("team", "example.com/cost-centre"), 60, 100)
    metrics.read_many(lambda: series.rows(NOW_MS))
    page = metrics.page()
    assert b'label_team="blue"' in page
    assert b'label_example_com_cost_centre=""' in page
    assert b"secret" not in page
    assert all(f"# TYPE {PREFIX}{one.name} ".encode() in page for one in SERIES)
    file = tmp_path / "metrics"
    file.write_bytes(page)
    check("metrics", file)


def test_a_lost_cycle_is_0_and_has_no_period() -> None:
    found = shown(full_view())
    assert found["pod_cyclic"][*ON_POD, "gpu_mem_used_bytes"] == 0
    assert (*ON_POD, "gpu_mem_used_bytes") not in found["pod_cycle_period_seconds"]


def test_a_node_that_is_silent_has_no_series() -> None:
    view = full_view()
    assert shown(view, NOW_MS + 60_000)
    view.health.clear()  # it has a time of its own, as a GPU that is lost has no samples
    assert not shown(view, NOW_MS + 60_001)


def test_slow_samples_are_not_stale() -> None:
    view = MetricsView(60_000)
    plain = nvml(0, [gpu(gpu_util_pct=0)], ts_ms=NOW_MS, interval_ms=60_000)
    tell(view, NvmlSample, plain)
    assert shown(view, NOW_MS + 180_000)
    assert not shown(view, NOW_MS + 180_001)


def test_time_goes_on_between_two_records() -> None:
    view = full_view()
    for seq in range(3, 33):
        feed(view, seq, [gpu(0, **FULL)], NOW_MS + 1000 * (seq - 2))
    found = shown(view, NOW_MS + 30_000)
    assert found["pod_memory_exhausted_seconds"][*ON_POD, "gpu"] == 870
    assert found["pod_idle_seconds"][ON_POD] == 630
    assert found["pod_idle_cost"][ON_POD] == pytest.approx(0.525)


def test_a_window_ends_when_no_other_follows() -> None:
    view = full_view()
    for seq in range(3, 303):
        feed(view, seq, [gpu(0, **FULL)], NOW_MS + 1000 * (seq - 2))
    assert "pod_gpu_utilization_mean_ratio" in shown(view, NOW_MS + 90_000)
    assert "pod_gpu_utilization_mean_ratio" not in shown(view, NOW_MS + 110_000)


def test_a_window_that_comes_late_is_not_shown() -> None:
    view = full_view()
    late = {"end_ms": NOW_MS - 30_000, "metrics": {"gpu_util_pct": {"count": 60, "mean": 1, "max": 1}}}
    tell(view, WindowAggregate, WINDOW | late)
    assert shown(view)["pod_gpu_utilization_mean_ratio"][ON_POD] == 0.5


def test_a_pod_whose_process_is_gone_is_0_until_it_ends() -> None:
    view = full_view()
    feed(view, 3, [gpu(0, gpu_util_pct=0, energy_j=309)], NOW_MS + 1000)
    found = shown(view, NOW_MS + 1000)
    for name in ("pod_gpu_utilization_ratio", "pod_gpu_memory_used_bytes", "pod_gpu_power_watts"):
        assert found[name][ON_POD] == 0, name
    tell(view, Pod, POD | {"phase": "Succeeded", "finished_ms": NOW_MS})
    assert "pod_gpu_busy_seconds_total" in shown(view, NOW_MS + 1000), "the last counts are scraped once more"
    feed(view, 4, [gpu(0, gpu_util_pct=0, energy_j=309)], NOW_MS + 61_000)
    assert not [name for name in shown(view, NOW_MS + 61_000) if name.startswith(("pod_", "job_"))]


def test_a_pod_whose_gpu_is_lost_is_not_idle() -> None:
    view = full_view()
    feed(view, 3, [gpu(1, gpu_util_pct=7)], NOW_MS + 1000)
    found = shown(view, NOW_MS + 1000)
    of_now = {"pod_gpu_utilization_ratio", "pod_gpu_memory_used_bytes", "pod_gpu_power_watts",
              "job_gpu_utilization_ratio"}  # fmt: skip
    assert not of_now & found.keys()
    assert found["pod_gpu_busy_seconds_total"], "what was counted stays"
    feed(view, 4, [gpu(0, gpu_util_pct=0), gpu(1, gpu_util_pct=7)], NOW_MS + 2000)
    assert shown(view, NOW_MS + 2000)["pod_gpu_utilization_ratio"][ON_POD] == 0, "it was reset"


def test_unknown_is_not_idle() -> None:
    view = MetricsView(60_000)
    given = [{"pod_uid": one, "namespace": "n", "pod": one, "shared": True} for one in ("p", "q")]
    feed(view, 1, [gpu(gpu_util_pct=9, power_w=5, allocated=given)])
    found = {name: values for name, values in shown(view).items() if name.startswith("pod_")}
    assert found == {
        "pod_gpus": {("", one, one, "a", "", "", "", "unknown"): 1 for one in ("p", "q")},
        "pod_gpu_power_watts": {("", one, one, "a", "", "", ""): 2.5 for one in ("p", "q")},
    }


def test_memory_that_no_pod_of_a_job_tells_is_not_0() -> None:
    view = MetricsView(60_000)
    tell(view, Pod, POD)
    given = [{"pod_uid": "p", "namespace": "ml", "pod": "bert-0"}]
    feed(view, 1, [gpu(gpu_util_pct=9, power_w=5, allocated=given)])
    series = shown(view)
    assert series["job_gpus"] == {ON_JOB: 1}
    assert not {"pod_gpu_memory_used_bytes", "job_gpu_memory_used_bytes"} & series.keys()


def test_the_pods_that_used_most_have_series() -> None:
    view = MetricsView(60_000)
    feed(
        view,
        0,
        [gpu(n, gpu_util_pct=5, processes=[{"pid": n, "pod_uid": f"p{n}"}]) for n in range(5)],
        NOW_MS + 2000,
    )
    pods = [PART["pods"][0] | {"pod_uid": f"p{n}", "totals": {"gpu_busy_s": n}} for n in range(5)]
    tell(view, NodePart, PART | {"pods": pods})
    series = SeriesRows(view, (), 60, 2)
    rows = {metric.name: values for metric, values in series.rows(NOW_MS + 2000)}
    assert {labels[2] for labels in rows["pod_gpu_utilization_ratio"]} == {"p4", "p3"}
    assert series.omitted == 3
    assert len(rows["gpu_utilization_ratio"]) == 5


def test_a_job_counts_pods_that_have_no_series_for_their_number() -> None:
    view = MetricsView(60_000)
    uids = ("p", "q")
    for uid, mean in zip(uids, (50, 10), strict=True):
        tell(view, Pod, POD | {"uid": uid, "name": uid})
        subject = {"subject": OF_POD | {"pod_uid": uid}}
        tell(
            view,
            WindowAggregate,
            WINDOW | subject | {"metrics": {"gpu_util_pct": {"count": 60, "mean": mean, "max": 2 * mean}}},
        )
    feed(
        view,
        1,
        [gpu(n, gpu_util_pct=5, processes=[{"pid": n, "pod_uid": uid}]) for n, uid in enumerate(uids)],
    )
    for most, with_series in ((0, 0), (1, 1), (2, 2)):
        rows = {metric.name: values for metric, values in SeriesRows(view, (), 60, most).rows(NOW_MS)}
        assert len(rows.get("pod_gpu_utilization_mean_ratio", {})) == with_series
        assert list(rows["job_gpu_utilization_mean_ratio"].values()) == [pytest.approx(0.3)]
        assert list(rows["job_gpu_utilization_max_ratio"].values()) == [1.0]


def test_what_is_old_leaves_memory() -> None:
    view = full_view()
    later = NOW_MS + 2 * 3_600_000
    kept: Callable[[], list[int]] = lambda: [  # noqa: E731
        len(one) for one in (view.windows, view.trends, view.cycles, view.insights)
    ]
    feed(view, 3, [gpu(0, **FULL)], later)
    view.forget(later)
    assert kept() == [0, 3, 3, 2], "what is said of the living stays, however old"
    assert view.nodes.keys() == {"a"}
    view.forget(later + 86_400_001)
    assert kept() == [0, 0, 0, 0]
    assert not view.nodes
    assert not view.parts


def test_a_part_that_is_told_again_takes_no_counter_back() -> None:
    """A worker repeats what came after its checkpoint, however much that is; another state begins anew."""
    view = full_view()

    def told(ts_ms: int, joules: float, since_ms: int = 1) -> float:
        part = PART | {"ts_ms": ts_ms, "since_ms": since_ms, "totals": {"GPU-0": {"energy_j": joules}}}
        tell(view, NodePart, part)
        return shown(view)["gpu_energy_joules_total"][ON_GPU]

    assert told(NOW_MS + 10_000, 310) == 310
    assert told(NOW_MS - 3_600_000, 9) == 310
    assert told(NOW_MS + 10_000, 310) == 310
    assert told(NOW_MS - 3_600_000, 311, since_ms=NOW_MS - 3_610_000) == 311, "the clock was set back"


def test_without_a_part_there_is_no_counter_and_all_the_rest() -> None:
    view = full_view()
    view.parts.clear()
    assert {one.name for one in SERIES} - set(shown(view)) == {
        f"{of}_{what}_total"
        for of in ("gpu", "pod_gpu")
        for what in (
            "busy_seconds", "sm_active_seconds", "tensor_active_seconds", "working_seconds", "energy_joules",
        )
    } | {"pod_gpu_untouched_seconds_total"}  # fmt: skip


def test_a_sample_that_comes_late_or_again_shows_nothing() -> None:
    view = full_view()
    feed(view, 1, [gpu(0, **FULL | {"gpu_util_pct": 10})], NOW_MS - 1000)
    assert shown(view)["gpu_utilization_ratio"][ON_GPU] == 0.6


def test_a_pod_on_slices_has_what_they_do() -> None:
    """Of the GPU above them nothing is known."""
    given = [
        {"pod_uid": "p", "namespace": "ml", "pod": "bert-0", "mig": f"MIG-{number}"} for number in (1, 2)
    ]
    slices = [
        {"uuid": "MIG-1", "gpu_util_pct": 80, "sm_active_pct": 40, "tensor_active_pct": 20},
        {"uuid": "MIG-2", "gpu_util_pct": 80, "sm_active_pct": 60},
        {"uuid": "MIG-3", "gpu_util_pct": 99, "sm_active_pct": 99},
    ]
    view = MetricsView(60_000)
    tell(view, Pod, POD)
    sample = nvml(1, [gpu(0, mig=slices, allocated=given)], ts_ms=NOW_MS)
    tell(view, NvmlSample, sample)
    series = shown(view)
    assert series["pod_gpu_sm_active_ratio"] == {ON_POD: 0.5}
    assert series["pod_gpu_tensor_active_ratio"] == {ON_POD: 0.2}
    assert series["job_gpu_sm_active_ratio"] == {ON_JOB: 0.5}
