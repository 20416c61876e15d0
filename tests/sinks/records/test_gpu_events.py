"""Incidents of GPUs in SQL: a row for each pod that was hit, written once, also into an older database."""

import sqlite3
from pathlib import Path

from dutycycle.contract.records.health import HitPod
from dutycycle.contract.records.pods import JobRef
from tests.support.data.gpu_events import made_event
from tests.support.sinks.recording import read_rows, write_records

JOB = JobRef(api_version="batch/v1", kind="Job", name="bert", uid="j")
HIT = (HitPod(uid="p", namespace="ml", name="bert-0", job=JOB), HitPod(uid="q"))
ROWS = "SELECT pod_uid, kind, code, count, job, severity FROM gpu_events ORDER BY pod_uid"


def test_each_pod_that_was_hit_has_a_row(records_url: str) -> None:
    event = made_event("xid", 79, pods=HIT, count=2)
    write_records(records_url, event, event, made_event("state", seq=1))
    assert read_rows(records_url, ROWS) == [
        ("p", "xid", 79, 2, "bert", "fatal"),
        ("q", "xid", 79, 2, None, "fatal"),
    ]


def test_an_incident_without_pods_has_a_row_and_two_of_one_moment_have_two(records_url: str) -> None:
    events = [
        made_event("xid", 31, pods=()), made_event("xid", 43), made_event("ecc_uncorrected"),
        made_event("xid", 31, gpu="GPU-b", mig="MIG-1"),
    ]  # fmt: skip
    write_records(records_url, *events)
    found = read_rows(records_url, "SELECT gpu, event, pod_uid FROM gpu_events ORDER BY gpu, event")
    assert found == [
        ("GPU-a", "ecc_uncorrected", ""),
        ("GPU-a", "xid/31", ""),
        ("GPU-a", "xid/43", ""),
        ("GPU-b", "xid/31/MIG-1", ""),
    ]


def test_a_database_that_is_older_gets_the_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'old.db'}"
    write_records(url)
    with sqlite3.connect(tmp_path / "old.db") as connection:
        connection.execute("DROP TABLE gpu_events")
    write_records(url, made_event("xid", 79))
    assert read_rows(url, "SELECT code FROM gpu_events") == [(79,)]
