"""Peak records in SQLite and PostgreSQL: what is written is read back, and only what is newer wins."""

import time
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import create_engine, text

from dutycycle.contract.codec import DecodeError, encode
from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from dutycycle.contract.records.parts import WorkloadState
from sinks.records.query import Which, job_peaks, pod_peaks
from sinks.records.writer import RecordsLostError, RecordsWriter
from tests.support.sinks import made
from tests.support.sinks.recording import read_rows, unix_ms, write_records


def test_records_are_read_back_as_they_were(records_url: str) -> None:
    names = {"name": "Grüße 世界 \\u0000 '; DROP TABLE pod_peaks; --", "images": ("a:1", "b@sha256:0")}
    pods = [made.pod_peaks("uid-1", names), made.pod_peaks("uid-2", {"job": None, "namespace": None})]
    jobs = [made.job_peaks("job-1"), made.job_peaks("job-2", final=True)]
    write_records(records_url, *pods, *jobs)
    assert pod_peaks(records_url) == [pods[1], pods[0]]
    assert job_peaks(records_url) == jobs


OLD = {"last_ms": 10_000, "samples": 10, "final": False}
ORDER = {
    "later": (OLD, {"last_ms": 11_000, "samples": 11}, True),
    "same time, more samples": (OLD, {"samples": 11}, True),
    "same, now final": (OLD, {"final": True}, True),
    "the same again, its phase known now": (OLD, {"pod_fields": {"phase": "Succeeded"}}, True),
    "earlier": (OLD, {"last_ms": 9_000, "samples": 9}, False),
    "earlier, and final": (OLD, {"last_ms": 9_000, "samples": 9, "final": True}, False),
    "same time, fewer samples": (OLD, {"samples": 9, "final": True}, False),
    "same, not final any more": (OLD | {"final": True}, {}, False),
}


@pytest.mark.parametrize("one_batch", [True, False], ids=["in one batch", "in two batches"])
@pytest.mark.parametrize(("first", "second", "wins"), ORDER.values(), ids=ORDER.keys())
def test_only_the_newer_wins(
    records_url: str, first: dict[str, Any], second: dict[str, Any], wins: bool, one_batch: bool
) -> None:
    records = made.pod_peaks(**first), made.pod_peaks(**(OLD | second))
    write_records(records_url, *records, batch=500 if one_batch else 1)
    assert pod_peaks(records_url) == [records[wins]]


JOB_ORDER = {
    "later": ({"last_ms": 10_001}, True),
    "later, running again": ({"last_ms": 10_001, "final": False}, True),
    "a pod more": ({"pods": dict.fromkeys("ab", next(iter(made.job_peaks().pods.values())))}, True),
    "earlier": ({"last_ms": 9_999}, False),
    "not final any more": ({"final": False}, False),
}


@pytest.mark.parametrize(("second", "wins"), JOB_ORDER.values(), ids=JOB_ORDER.keys())
def test_only_the_newer_job_wins(records_url: str, second: dict[str, Any], wins: bool) -> None:
    records = made.job_peaks(final=True), made.job_peaks(**({"final": True} | second))
    write_records(records_url, *records, batch=1)
    assert job_peaks(records_url) == [records[wins]]


def test_repeats_change_nothing(records_url: str) -> None:
    records = [made.pod_peaks(f"uid-{i}", last_ms=10_000 + i) for i in range(50)]
    write_records(records_url, *records, batch=7)
    before = read_rows(records_url, "SELECT * FROM pod_peaks ORDER BY pod_uid")
    write_records(records_url, *reversed(records), *records, batch=11)
    assert read_rows(records_url, "SELECT * FROM pod_peaks ORDER BY pod_uid") == before
    assert len(before) == 50


def test_a_tombstone_and_other_topics_take_nothing_away(records_url: str) -> None:
    write_records(records_url, made.pod_peaks())
    with RecordsWriter(records_url) as writer:
        writer.write("pod-peaks", None)
        writer.write("trends", b"no record at all")
    assert pod_peaks(records_url) == [made.pod_peaks()]


def test_bytes_that_are_no_record_are_told(records_url: str) -> None:
    with RecordsWriter(records_url) as writer:
        writer.write("pod-peaks", encode(made.pod_peaks()))
        with pytest.raises(DecodeError, match="pod-peaks: payload: not JSON"):
            writer.write("pod-peaks", b"{")
    assert pod_peaks(records_url) == [made.pod_peaks()]


def test_usage_of_an_hour_to_come_is_refused_and_the_rest_is_kept(records_url: str) -> None:
    hours = [(int(time.time()) // 3600 + ahead) * HOUR_MS for ahead in (0, 23, 26)]
    used = GpuHour(gpu="GPU-1", gpu_s=60, known_s=60, busy_s=30, energy_j=7)
    refused = pytest.raises(RecordsLostError, match=r"usage_hours a: usage of a in an hour to come, .* ahead")
    with refused, RecordsWriter(records_url) as writer:
        for hour_ms in hours:
            hour = UsageHour(node="a", source="nvml", hour_ms=hour_ms, ts_ms=hour_ms + 1, gpus=(used,))
            writer.write("usage", encode(hour))
    kept = read_rows(records_url, "SELECT hour FROM usage_hours ORDER BY hour")
    assert [unix_ms(at) for (at,) in kept] == hours[:2]


def test_absent_is_null_and_idle_is_zero(records_url: str) -> None:
    metrics = {"gpu_util_pct": made.peak(0, p95=0), "temp_c": made.peak(61, 50)}
    write_records(records_url, made.pod_peaks(metrics=metrics))
    query = (
        "SELECT p.max_gpu_util_pct, p.mean_gpu_util_pct, pods.p95_gpu_util_pct, p.max_cpu_util_pct, "
        "p.p95_cpu_util_pct, gpus, job_name FROM pod_peaks AS p JOIN pods USING (pod_uid, gpus)"
    )
    assert read_rows(records_url, query) == [(0.0, 0.0, 0.0, None, None, 1, "bert")]


VIEW = "SELECT * FROM {} ORDER BY 2, 3"
VIEWS = {
    "pod_peak_metrics": [
        ("uid-1", "cpu_util_pct", 151.8, 75.9, None, 5),
        ("uid-1", "gpu_util_pct", 97.0, 48.5, 90.0, 5),
        ("uid-1", "temp_c", 61.0, 30.5, None, 5),
    ],
    "pod_peak_gpus": [
        ("uid-1", "gpu-a/0", "gpu_util_pct", 97.0, 48.5, None, 5),
        ("uid-1", "gpu-a/0", "mem_used_bytes", 2.0**30, 2.0**29, None, 5),
    ],
    "pod_peak_processes": [("uid-1", "gpu-a/0/4711", "gpu_util_pct", 95.0, 47.5, None, 5)],
    "job_peak_metrics": [("job-1", "cpu_util_pct", 151.8, 75.9, None, 5)],
    "job_peak_pods": [("job-1", "bert-worker-0", "cpu_util_pct", 151.8, 75.9, None, 5)],
}


def test_views_have_a_row_for_each_metric(records_url: str) -> None:
    bare = made.pod_peaks("uid-0", metrics={}, gpus={}, processes=None)
    write_records(records_url, bare, made.pod_peaks(), made.job_peaks())
    found = {
        name: [(*row, unix_ms(at)) for *row, at in read_rows(records_url, VIEW.format(name))]
        for name in VIEWS
    }
    assert found == VIEWS


def test_a_record_that_no_database_can_hold_is_told_and_the_others_are_kept(records_url: str) -> None:
    good = [made.pod_peaks(f"uid-{i}") for i in range(9)]
    too_many = made.job_peaks("uid-b", pods_omitted=2**63 - 1)
    words = "1 peak records could not be kept: job_peaks uid-b: pods: 9223.* is past"
    with pytest.raises(RecordsLostError, match=words):
        write_records(records_url, *good[:5], too_many, *good[5:])
    assert pod_peaks(records_url) == good


def test_a_row_that_the_database_refuses_is_told_and_the_others_are_kept(postgres_url: str) -> None:
    write_records(postgres_url)
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("ALTER TABLE job_peaks ADD CHECK (name <> 'name-of-job-3')"))
    engine.dispose()
    with pytest.raises(RecordsLostError, match=r"1 peak records .*: job_peaks job-3: .*check constraint"):
        write_records(postgres_url, *(made.job_peaks(f"job-{i}") for i in range(7)))
    assert [job.job.uid for job in job_peaks(postgres_url)] == [f"job-{i}" for i in (0, 1, 2, 4, 5, 6)]


def test_selection_and_order(records_url: str) -> None:
    other = {"namespace": "team-b", "job": None}
    records = [made.pod_peaks("uid-2"), made.pod_peaks("uid-3", other), made.pod_peaks("uid-1")]
    write_records(records_url, *records, made.job_peaks("job-9"), made.job_peaks("job-1", namespace="team-b"))

    def uids(**narrowed: Any) -> list[str]:
        return [record.pod.uid for record in pod_peaks(records_url, Which(**narrowed))]

    assert uids() == ["uid-1", "uid-2", "uid-3"]
    assert uids(namespace="team-b") == ["uid-3"]
    assert uids(job="bert") == uids(job="job-1") == ["uid-1", "uid-2"]
    assert uids(job="bert", namespace="team-b") == uids(namespace="") == []
    assert [job.job.uid for job in job_peaks(records_url)] == ["job-9", "job-1"]
    assert [job.job.uid for job in job_peaks(records_url, Which(job="name-of-job-1"))] == ["job-1"]


def test_reading_while_a_sink_writes(records_url: str) -> None:
    with RecordsWriter(records_url) as writer:
        for i in range(5):
            writer.write("pod-peaks", encode(made.pod_peaks(f"uid-{i}")))
            writer.flush()
            assert len(pod_peaks(records_url)) == i + 1


def test_what_a_training_reports_has_columns_of_its_own(records_url: str) -> None:
    write_records(records_url, made.pod_peaks("uid-1"), made.job_peaks("job-1"))
    reported = WorkloadState(
        seen_ms=5_000, period_s=2, period_source="reported", cycle_steps=1, steps_per_s=0.5, samples_per_s=64
    )
    with RecordsWriter(records_url) as writer:
        writer.write("pod-insights", encode(replace(made.insight("training", "none", None), state=reported)))
        silent = WorkloadState(seen_ms=5_000, period_s=13)
        writer.write("job-insights", encode(replace(made.job_insight("training", "gpu", None), state=silent)))
    query = "SELECT period_source, cycle_steps, steps_per_s, samples_per_s FROM {}"
    assert read_rows(records_url, query.format("pods")) == [("reported", 1, 0.5, 64.0)]
    assert read_rows(records_url, query.format("jobs")) == [(None, None, None, None)]


def test_what_a_pod_and_a_job_do_stands_beside_what_they_needed(records_url: str) -> None:
    write_records(records_url, made.pod_peaks("uid-1"), made.job_peaks("job-1"))
    pod = WorkloadState(
        seen_ms=5_000, period_s=12.5, confidence=0.97, mem_full_ms=90_000, gpu_mem_full_ms=60_000
    )
    job = WorkloadState(seen_ms=5_000, period_s=13, confidence=0.9, gpu_mem_full_ms=61_000)
    with RecordsWriter(records_url) as writer:
        writer.write("pod-insights", encode(replace(made.insight("training", "input", None), state=pod)))
        writer.write("job-insights", encode(replace(made.job_insight("training", "gpu", None), state=job)))
    query = "SELECT does, bottleneck, period_s, period_confidence, gpu_mem_full_at, mem_full_at FROM {}"
    ((*found, gpu_full, full),) = read_rows(records_url, query.format("pods"))
    assert (found, unix_ms(gpu_full), unix_ms(full)) == (["training", "input", 12.5, 0.97], 60_000, 90_000)
    ((*found, gpu_full, full),) = read_rows(records_url, query.format("jobs"))
    assert (found, unix_ms(gpu_full), full) == (["training", "gpu", 13.0, 0.9], 61_000, None)
