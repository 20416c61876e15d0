"""Jobs that ended and that run, in SQL, on both databases: what they used and wasted, and how it is read."""

import time
from typing import Any

import pytest
from msgspec.structs import replace
from sqlalchemy import create_engine, text

from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.derived import PodPeaks
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.settings.groups import Settings
from sinks.records.jobs import ORDERS, JobQuery, jobs_statement, read_job, read_jobs, read_with_ended
from sinks.records.query import reading
from tests.support.data.two_teams import two_teams
from tests.support.sinks.made import job_peaks, pod_peaks
from tests.support.sinks.recording import derived, insert_jobs, open_store, write_all, write_records

START_MS = 1_790_000_000_000 // (24 * HOUR_MS) * 24 * HOUR_MS
SETTINGS = Settings(price_gpu_hour=2.0)
MANY = 50_000
SLOW_S = 60.0
"""Far over what it takes; a scan of the ledger for each job would take minutes."""


@pytest.fixture(scope="module")
def of_two_teams() -> list[ProducerRecord]:
    return list(derived(two_teams(START_MS)))


def names(url: str, **asked: Any) -> list[str]:
    return [row["name"] for row in read_jobs(url, JobQuery(since_ms=START_MS, **asked)).rows]


def test_who_wasted_most_comes_first(records_url: str, of_two_teams: list[ProducerRecord]) -> None:
    write_all(of_two_teams, records_url, SETTINGS)
    jobs = read_jobs(records_url, JobQuery(since_ms=START_MS))
    idle, *others = jobs.rows
    assert idle["name"] == "job-of-pod-d"
    assert (idle["gpu_s"], idle["gpu_busy_s"]) == (5400, 0)
    assert (idle["cost"], idle["gpu_idle_cost"]) == (pytest.approx(3), pytest.approx(3))
    busy = next(row for row in others if row["name"] == "job-of-pod-a")
    assert (busy["gpu_s"], busy["gpu_busy_s"]) == (5400, pytest.approx(4320))
    assert (busy["cost"], busy["gpu_idle_cost"]) == (pytest.approx(3), pytest.approx(0.6))
    assert (jobs.count, jobs.namespaces, jobs.kinds) == (4, ["cv", "default", "ml"], ["Job"])
    later = read_jobs(records_url, JobQuery(since_ms=START_MS + HOUR_MS)).rows
    assert later[0]["gpu_s"] == 1800, "what was used before the time that is asked for does not count"
    assert read_jobs(records_url, JobQuery(since_ms=START_MS + 9 * HOUR_MS)).rows == []
    first = read_jobs(records_url, JobQuery(since_ms=0, until_ms=START_MS + HOUR_MS)).rows[0]
    assert (first["gpu_s"], first["cost"]) == (3600, pytest.approx(2)), "nor what was used after it"
    before = read_jobs(records_url, JobQuery(since_ms=0, until_ms=START_MS))
    assert (before.rows, before.count, before.namespaces) == ([], 0, [])


def test_filters_and_orders(records_url: str, of_two_teams: list[ProducerRecord]) -> None:
    write_all(of_two_teams, records_url, SETTINGS)
    a, b, c, d = (f"job-of-pod-{name}" for name in "abcd")
    assert sorted(names(records_url, namespaces=["ml"])) == [a, c]
    assert names(records_url, namespaces=[]) == []
    assert sorted(names(records_url, label=("team", "nlp"))) == [a, c]
    assert names(records_url, words="POD-B") == [b]
    assert names(records_url, words="%") == [], "a percent sign is a letter"
    assert names(records_url, kind="x' OR '1'='1") == []
    assert names(records_url, kind="Job", ended=False) == [d, a]
    assert names(records_url, order="use")[0] == d
    assert names(records_url, order="use", most=1) == [d]
    for order in ORDERS:
        assert sorted(names(records_url, order=order)) == [a, b, c, d]


def test_a_job_with_its_pods_and_the_runs_before_it(
    records_url: str, of_two_teams: list[ProducerRecord]
) -> None:
    write_all(of_two_teams, records_url, SETTINGS)
    job = read_job(records_url, "job-pod-c")
    assert job is not None
    assert (job.row["name"], job.row["gpu_s"], job.pod_count) == ("job-of-pod-c", 1800, 1)
    assert [(pod["name"], pod["node"]) for pod in job.pods] == [("name-of-pod-c", "gpu-a")]
    assert job.earlier == []
    assert read_job(records_url, "job-pod-c", ["cv"]) is None
    assert read_job(records_url, "nobody") is None
    made = (("train-001", 1), ("train-002", 2), ("train-x", 2), ("train-002", 3), ("train-003", 4))
    insert_jobs(records_url, [
        (f"u{at}", name, START_MS + hour * HOUR_MS) for at, (name, hour) in enumerate(made)
    ])  # fmt: skip
    last = read_job(records_url, "u4")
    assert last is not None
    assert [row["job_uid"] for row in last.earlier] == ["u3", "u1", "u0"]
    again = read_job(records_url, "u3")
    assert again is not None
    assert [row["job_uid"] for row in again.earlier] == ["u1", "u0"], "its own name comes first"


def test_pods_that_had_ended_when_a_job_began(records_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of jobs of its name come first, then the newest, also where some have no job."""

    def pod(uid: str, job: JobRef | None, last_ms: int, **changed: Any) -> PodPeaks:
        final = changed.pop("final", True)
        return pod_peaks(uid, {"job": job, "namespace": "ml"} | changed, last_ms=last_ms, final=final)

    job = JobRef(api_version="batch/v1", kind="Job", name="train-2", uid="j2")
    before = replace(job, name="train-1", uid="j1")
    write_records(
        records_url, job_peaks("j2", job=job, namespace="ml", first_ms=START_MS, last_ms=START_MS + 9),
        pod("own", job, START_MS + 9, final=False), pod("own-before", job, START_MS - 1),
        pod("alone", None, START_MS - 2), pod("alike", before, START_MS - 5),
        pod("other", replace(before, name="web", uid="j3"), START_MS - 3),
        pod("later", before, START_MS + 1), pod("runs", before, START_MS - 4, final=False),
        pod("foreign", before, START_MS - 1, namespace="cv"),
        pod("forged", job, START_MS - 1, namespace="cv"),
    )  # fmt: skip
    record = read_job(records_url, "j2")
    assert record is not None
    read = read_with_ended(records_url, record.row, ["ml"])
    assert {peaks.pod.uid for peaks in read.pods} == {"own", "own-before"}
    assert [peaks.pod.uid for peaks in read.ended] == ["alike", "alone", "other"]
    assert read_with_ended(records_url, record.row).ended == read.ended, "similar is of one namespace"
    nothing = read_with_ended(records_url, record.row, ["cv"])
    assert ([peaks.pod.uid for peaks in nothing.pods], nothing.ended) == (["forged"], [])
    monkeypatch.setattr("sinks.records.jobs.MOST_ENDED", 1)
    assert [peaks.pod.uid for peaks in read_with_ended(records_url, record.row).ended] == ["alike"]


def test_postgresql_compiles_no_query(records_url: str, of_two_teams: list[ProducerRecord]) -> None:
    write_all(of_two_teams, records_url, SETTINGS)
    with reading(records_url) as connection:
        if connection.dialect.name == "postgresql":
            assert connection.scalar(text("SHOW jit")) == "off"


@pytest.mark.slow
def test_fifty_thousand_jobs(records_url: str) -> None:
    """No query reads the ledger once for each job, and one job is found by indexes alone."""
    open_store(records_url).close()
    insert_jobs(records_url, [
        (f"u{at}", f"train-{at}", START_MS + at % 700 * HOUR_MS) for at in range(MANY)
    ])  # fmt: skip
    engine = create_engine(records_url)
    with engine.begin() as connection:
        connection.execute(text("ANALYZE"))
        is_sqlite = connection.dialect.name == "sqlite"
        query = JobQuery(since_ms=START_MS + 500 * HOUR_MS)
        compiled = jobs_statement(query).compile(connection)
        how = "EXPLAIN QUERY PLAN " if is_sqlite else "EXPLAIN "
        lines = connection.exec_driver_sql(how + str(compiled), compiled.params if not is_sqlite else tuple(
            compiled.params[name] for name in compiled.positiontup or ()
        ))  # fmt: skip
        plan = "\n".join(str(tuple(line)) for line in lines)
        assert "CORRELATED" not in plan, plan
        assert "SubPlan" not in plan, plan
        assert not (is_sqlite and "SCAN usage_hours" in plan), plan
    engine.dispose()
    for order in ORDERS:
        began_s = time.perf_counter()
        jobs = read_jobs(records_url, JobQuery(since_ms=START_MS, order=order, words="9"))
        assert time.perf_counter() - began_s < SLOW_S, order
        assert len(jobs.rows) == 200
        assert jobs.count > 10_000
    began_s = time.perf_counter()
    job = read_job(records_url, "u49999")
    assert job is not None
    assert time.perf_counter() - began_s < SLOW_S
    assert len(job.earlier) == 20
