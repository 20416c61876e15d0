"""A pod's name that is used again is another record; a database of an older version learns to tell them."""

import os
import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, inspect, text

from contract.records.derived import PodPeaks
from sinks.records.query import job_peaks, pod_peaks
from sinks.records.rows import job_row, pod_row
from sinks.records.store import RecordsStore
from tests.support.processes.commands import dutycycle, environ
from tests.support.sinks import made

VERSION_1 = Path(__file__).parents[2] / "support/data/records_schema_1.sql"
STARTS_MS = (1_700_000_000_000, 1_700_003_600_000)
LIVES = [
    made.pod_peaks(
        "uid-9", {"name": "web-0", "started_ms": STARTS_MS[0]}, metrics={"gpu_util_pct": made.peak(11, 11)}
    ),
    made.pod_peaks(
        "uid-1", {"name": "web-0", "started_ms": STARTS_MS[1]}, metrics={"gpu_util_pct": made.peak(22, 22)}
    ),
]
OTHER = made.pod_peaks("uid-5", {"name": "db-0", "created_ms": 7})


def write(url: str, *records: PodPeaks) -> None:
    store = RecordsStore(url)
    store.open()
    assert store.put([pod_row(one) for one in records]) == []
    store.close()


def select(url: str, query: str) -> list[tuple[Any, ...]]:
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(text(query))]
    engine.dispose()
    return rows


def test_each_life_of_a_name_is_a_record(records_url: str) -> None:
    write(records_url, *reversed(LIVES), OTHER)
    assert pod_peaks(records_url, name="web-0") == LIVES
    assert pod_peaks(records_url, namespace="default", name="db-0") == [OTHER]
    query = "SELECT namespace, name, node, started_ms FROM pod_peaks ORDER BY started_ms"
    assert select(records_url, query) == [
        ("default", "db-0", "gpu-a", 7), *(("default", "web-0", "gpu-a", ms) for ms in STARTS_MS)
    ]  # fmt: skip


def test_the_name_node_and_start_are_an_index(records_url: str) -> None:
    write(records_url)
    engine = create_engine(records_url)
    indexes = {one["name"]: one["column_names"] for one in inspect(engine).get_indexes("pod_peaks")}
    engine.dispose()
    assert indexes["ix_pod_peaks_life"] == ["namespace", "name", "node", "started_ms"]


def test_the_command_tells_lives_apart_where_a_name_was_used_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    write(url, OTHER)
    env = environ(records=url) | {"PATH": os.environ["PATH"]}
    assert "started" not in dutycycle("peaks", env=env).stdout
    write(url, *LIVES)
    lines = dutycycle("peaks", "--pod", "web-0", env=env).stdout.splitlines()
    assert "started" in lines[0]
    assert [re.findall(r"2023-11-\S+|\d\d(?=\.0 %)", line) for line in lines[1:]] == [
        ["2023-11-14T22:13:20Z", "11", "11"], ["2023-11-14T23:13:20Z", "22", "22"]
    ]  # fmt: skip
    table = dutycycle("peaks", env=env).stdout.splitlines()
    assert sum("2023-11-14" in line for line in table) == 2, "a name that was used once needs no start"
    rows = dutycycle("peaks", "--format", "csv", env=env).stdout.splitlines()
    assert rows[0].endswith(",started_ms")
    assert {row.rsplit(",", 1)[1] for row in rows[1:]} == {"7", *map(str, STARTS_MS)}


@pytest.fixture
def version_1(records_url: str, tmp_path: Path) -> str:
    """A database as version 1 left it, with two pods and a job."""
    (tmp_path / "state").mkdir(exist_ok=True)
    engine = create_engine(records_url)
    with engine.begin() as connection:
        for statement in VERSION_1.read_text().split(";\n"):
            if statement.strip():
                connection.execute(text(statement))
        for row in (pod_row(LIVES[0]), pod_row(OTHER), job_row(made.job_peaks())):
            old = {name: value for name, value in row.values.items() if name not in ("started_ms", "parts")}
            columns = ", ".join(old)
            marks = ", ".join(f":{name}" for name in old)
            connection.execute(text(f"INSERT INTO {row.table} ({columns}) VALUES ({marks})"), old)  # noqa: S608
    engine.dispose()
    return records_url


def test_a_database_of_version_1_is_read_as_it_is(version_1: str) -> None:
    assert pod_peaks(version_1) == [OTHER, LIVES[0]]
    assert job_peaks(version_1) == [made.job_peaks()]
    assert select(version_1, "SELECT version FROM dutycycle_schema") == [(1,)]


def test_a_database_of_version_1_is_taken_over_and_loses_nothing(version_1: str) -> None:
    views = {name: select(version_1, f"SELECT * FROM {name} ORDER BY 1, 2") for name in _VIEWS}  # noqa: S608
    write(version_1)
    assert select(version_1, "SELECT version FROM dutycycle_schema") == [(2,)]
    assert pod_peaks(version_1) == [OTHER, LIVES[0]]
    assert {name: select(version_1, f"SELECT * FROM {name} ORDER BY 1, 2") for name in _VIEWS} == views  # noqa: S608
    started = "SELECT name, started_ms FROM pod_peaks ORDER BY name"
    assert select(version_1, started) == [("db-0", 7), ("web-0", STARTS_MS[0])]
    later = made.pod_peaks(
        "uid-5",
        {"name": "db-0", "created_ms": 7},
        first_ms=50_000,
        last_ms=60_000,
        metrics={"temp_c": made.peak(99)},
    )
    write(version_1, *LIVES, later)
    assert pod_peaks(version_1, name="web-0") == LIVES
    (joined,) = pod_peaks(version_1, name="db-0")
    assert (joined.first_ms, joined.samples, joined.metrics["temp_c"].max) == (1_000, 20, 99)
    assert joined.metrics["gpu_util_pct"].max == 97


_VIEWS = ("pod_peak_metrics", "pod_peak_gpus", "pod_peak_processes", "job_peak_metrics", "job_peak_pods")


def test_a_migrated_schema_is_the_one_that_is_made_anew(version_1: str, tmp_path: Path) -> None:
    write(version_1)
    write(fresh := f"sqlite:///{tmp_path}/fresh.db")
    for table in ("pod_peaks", "job_peaks"):
        assert _columns(version_1, table) == _columns(fresh, table)


def _columns(url: str, table: str) -> list[str]:
    engine = create_engine(url)
    found = [column["name"] for column in inspect(engine).get_columns(table)]
    engine.dispose()
    return found
