"""How PostgreSQL answers what a page asks, with 50,000 ended jobs: by indexes, but for names of pods."""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Engine, create_engine, event, text

from dutycycle.contract.records.hours import HOUR_MS
from sinks.records.jobs import (
    JobQuery,
    read_gpu_time,
    read_job,
    read_jobs,
    read_neighbors,
    read_pods,
    read_with_ended,
)
from sinks.records.prices import PriceList, set_prices
from sinks.records.query import gpu_events
from sinks.records.rows import moment
from sinks.records.usage import UsageQuery, label_names, ledger_until, usage
from tests.support.servers.postgres import Postgres
from tests.support.sinks.recording import insert_jobs

DAY_MS = 24 * HOUR_MS
START_MS = 1_790_000_000_000 // DAY_MS * DAY_MS
HOURS = 90 * 24
END_MS = START_MS + HOURS * HOUR_MS
JOBS = 50_000
NAMESPACES = ("ml", "cv", "nlp", "speech")
SCAN = re.compile(r"Seq Scan on (pod_peaks|job_peaks|usage_hours|usage_days|insights|gpu_events)\b")
NAMES = {"pod_peaks", "insights"}
"""What sums over a week are joined with. The records of pods lie beside the table, which is narrow: to read
50,000 names is faster than to look 4,000 up, and than an index that covers them (ADR 64)."""
SUMS = {
    "today", "usage by namespace", "usage by team and day", "usage of a namespace", "usage of who sees some",
    "jobs of a week", "jobs with a label",
}  # fmt: skip
_FILL = """
UPDATE usage_hours SET node = 'n' || (hashtext(pod_uid) & 127), gpu = 'G' || (hashtext(pod_uid) & 1023),
  gpu_model = 'NVIDIA H200', pod_s = 1800, cpu_s = 900, energy_j = 5e5;
INSERT INTO usage_days (day, node, pod_uid, gpu, gpu_s, gpu_known_s, gpu_busy_s)
  SELECT hour - interval '1000 days', node, 'old-' || pod_uid, gpu, 1800, 1800, 900 FROM usage_hours;
UPDATE pod_peaks SET record = jsonb_set(record, '{pad}', to_jsonb(
  (SELECT string_agg(md5(pod_uid || at), '') FROM generate_series(1, 48) AS at)));
UPDATE job_peaks SET record = jsonb_build_object('pad',
  (SELECT string_agg(md5(job_uid || at), '') FROM generate_series(1, 48) AS at));
INSERT INTO insights (subject, job_uid, kind, kind_confidence, bottleneck, bottleneck_confidence, since, at,
  evidence)
  SELECT 'job/' || job_uid, job_uid, 'training', 0.9, 'none', 0.9, first_at, last_at, '{}' FROM job_peaks;
INSERT INTO gpu_events (gpu, at, event, pod_uid, node, gpu_index, kind, count, severity, name, inferred,
  job_uid)
  SELECT gpu, hour, 'xid', pod_uid, node, 0, 'xid', 1, 'watch', 'Xid 63', false, substr(pod_uid, 3)
  FROM usage_hours;
"""
"""Records get 1.5 kB of letters that do not shrink, as those of pods with several GPUs have once packed."""


@pytest.fixture(scope="module")
def filled(postgres_server: Postgres) -> Iterator[tuple[str, Engine]]:
    postgres_server.ensure_running()
    url = postgres_server.new_database()
    insert_jobs(
        url,
        [(f"u{at}", f"train-{at % 500}-{at}", START_MS + at * HOURS // JOBS * HOUR_MS) for at in range(JOBS)],
        NAMESPACES,
    )
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.exec_driver_sql(_FILL)
        for back in range(3):
            listed = PriceList(gpu_hour=2.0 + back, gpu_models=(("H200", 3.0), ("H100", 2.5)))
            set_prices(
                connection, listed, datetime.fromtimestamp((START_MS + back * 30 * DAY_MS) / 1000, UTC)
            )
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM FULL ANALYZE"))
    yield url, engine
    engine.dispose()


def week(by: tuple[str, ...], **of: Any) -> UsageQuery:
    return UsageQuery(by=by, start_ms=END_MS - 7 * DAY_MS, end_ms=END_MS, **of)


JOB = {"job_uid": "u49000", "namespace": "ml", "first_at": moment(END_MS - DAY_MS)}
QUESTIONS: dict[str, Callable[[str], object]] = {
    "today": lambda url: usage(url, UsageQuery(by=("day",), start_ms=END_MS - DAY_MS, end_ms=END_MS)),
    "usage by namespace": lambda url: usage(url, week(("namespace",))),
    "usage by team and day": lambda url: usage(url, week(("team", "day"))),
    "usage of a namespace": lambda url: usage(url, week(("job",), namespace="ml")),
    "usage of who sees some": lambda url: usage(url, week(("namespace",), namespaces=["ml", "cv"])),
    "labels": label_names,
    "age of the ledger": lambda url: ledger_until(url, END_MS),
    "past of a node": lambda url: usage(url, week(("hour",), node="n5")),
    "past of a GPU": lambda url: usage(url, week(("namespace", "job", "pod"), node="n5", gpu="G5")),
    "events of a GPU": lambda url: gpu_events(url, "n5", "G5", END_MS - 7 * DAY_MS),
    "jobs of a week": lambda url: read_jobs(url, JobQuery(since_ms=END_MS - 7 * DAY_MS)),
    "jobs with a label": lambda url: read_jobs(
        url, JobQuery(since_ms=END_MS - 7 * DAY_MS, label=("team", "ml"))
    ),
    "a job": lambda url: read_job(url, "u49000"),
    "report of a job": lambda url: (read_gpu_time(url, "u49000"), read_pods(url, "u49000")),
    "pods beside a job": lambda url: read_neighbors(url, ["n"], (END_MS - DAY_MS, END_MS - DAY_MS // 2)),
    "prediction": lambda url: read_with_ended(url, JOB | {"name": "train-0-49000"}),
    "prediction of a job without kin": lambda url: read_with_ended(url, JOB | {"name": "odd-7"}),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", QUESTIONS)
def test_no_question_scans_the_ledger(name: str, filled: tuple[str, Engine]) -> None:
    url, engine = filled
    asked: list[tuple[str, Any]] = []

    def note(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        if statement.startswith(("SELECT", "WITH")) and "pg_catalog" not in statement:
            asked.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        assert QUESTIONS[name](url)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    assert asked
    with engine.connect() as connection:
        connection.execute(text("SET LOCAL jit = off"))
        for statement, parameters in asked:
            lines = connection.exec_driver_sql(f"EXPLAIN (ANALYZE, TIMING OFF) {statement}", parameters)
            plan = "\n".join(line for (line,) in lines)
            scanned = set(SCAN.findall(plan)) - (NAMES if name in SUMS else set())
            assert not scanned, f"{statement}\n{plan}"
