"""A pod's name that is used again is another record."""

import os
import re
from pathlib import Path

from sqlalchemy import create_engine, inspect

from dutycycle.contract.records.derived import Peak, PodPeaks
from sinks.records.query import Which, pod_peaks
from sinks.records.rows import pod_row
from tests.support.processes.commands import dutycycle, environ
from tests.support.sinks import made
from tests.support.sinks.recording import open_store, read_rows, unix_ms

STARTS_MS = (1_700_000_000_000, 1_700_003_600_000)


def steady(value: float) -> Peak:
    return made.peak(value, value, p95=value)


INCARNATIONS = [
    made.pod_peaks(
        "uid-9", {"name": "web-0", "started_ms": STARTS_MS[0]}, metrics={"gpu_util_pct": steady(11)}
    ),
    made.pod_peaks(
        "uid-1", {"name": "web-0", "started_ms": STARTS_MS[1]}, metrics={"gpu_util_pct": steady(22)}
    ),
]
OTHER = made.pod_peaks("uid-5", {"name": "db-0", "created_ms": 7})


def write(url: str, *records: PodPeaks) -> None:
    store = open_store(url)
    assert store.put([pod_row(one) for one in records]) == []
    store.close()


def test_each_incarnation_of_a_name_is_a_record(records_url: str) -> None:
    write(records_url, *reversed(INCARNATIONS), OTHER)
    assert pod_peaks(records_url, Which(name="web-0")) == INCARNATIONS
    assert pod_peaks(records_url, Which(namespace="default", name="db-0")) == [OTHER]
    query = "SELECT namespace, name, node, started_at FROM pod_peaks ORDER BY started_at"
    assert [(*names, unix_ms(at)) for *names, at in read_rows(records_url, query)] == [
        ("default", "db-0", "gpu-a", 7), *(("default", "web-0", "gpu-a", ms) for ms in STARTS_MS)
    ]  # fmt: skip


def test_the_name_node_and_start_are_an_index(records_url: str) -> None:
    write(records_url)
    engine = create_engine(records_url)
    indexes = {one["name"]: one["column_names"] for one in inspect(engine).get_indexes("pod_peaks")}
    engine.dispose()
    assert indexes["ix_pod_peaks_incarnation"] == ["namespace", "name", "node", "started_at"]


def test_the_command_tells_incarnations_apart_where_a_name_was_used_again(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/records.db"
    write(url, OTHER)
    env = environ(records=url) | {"PATH": os.environ["PATH"]}
    assert "started" not in dutycycle("peaks", env=env).stdout
    write(url, *INCARNATIONS)
    lines = dutycycle("peaks", "--pod", "web-0", env=env).stdout.splitlines()
    assert "started" in lines[0]
    assert [re.findall(r"2023-11-\S+|\d\d(?=\.0 %)", line) for line in lines[1:]] == [
        ["2023-11-14T22:13:20Z", "11", "11", "11"], ["2023-11-14T23:13:20Z", "22", "22", "22"]
    ]  # fmt: skip
    table = dutycycle("peaks", env=env).stdout.splitlines()
    assert sum("2023-11-14" in line for line in table) == 2, "a name that was used once needs no start"
    rows = dutycycle("peaks", "--format", "csv", env=env).stdout.splitlines()
    assert rows[0].endswith(",started_ms")
    assert {row.rsplit(",", 1)[1] for row in rows[1:]} == {"7", *map(str, STARTS_MS)}
