"""The tables and views are those that the contract names, on both databases."""

import pytest
from sqlalchemy import create_engine, inspect, text

from docs.generate_contract import page
from dutycycle.contract.codec import encode
from dutycycle.contract.errors import DutycycleError
from sinks.records.query import reading
from sinks.records.rows import FIGURES, NODE_FIGURES
from sinks.records.tables.schema import OTHER_TABLES, TABLES
from sinks.records.tables.views import VIEWS
from sinks.records.writer import RecordsWriter
from tests.support.sinks import made

COLUMNS = {f"{figure}_{metric}" for figure, metric in (*FIGURES, *NODE_FIGURES)}
METRICS = {"metric", "max", "mean", "p95", *COLUMNS}


def test_the_contract_names_all_that_is_there(records_url: str) -> None:
    with RecordsWriter(records_url):
        pass
    engine = create_engine(records_url)
    found = inspect(engine)
    assert set(found.get_table_names()) == {*TABLES, *OTHER_TABLES, "dutycycle_schema"}
    assert set(found.get_view_names()) == set(VIEWS)
    columns = {
        name: {column["name"] for column in found.get_columns(name)}
        for name in (*TABLES, *OTHER_TABLES, *VIEWS)
    }
    engine.dispose()
    rows = {line.split("`")[1]: line for line in page().splitlines() if line.startswith("| `")}
    for name, of in columns.items():
        assert {one for one in of - METRICS if f"`{one}`" not in rows[name]} == set()


def test_a_database_that_is_older_than_a_column_gets_its_columns(records_url: str) -> None:
    with RecordsWriter(records_url):
        pass
    engine = create_engine(records_url)
    with engine.begin() as connection:
        for name in reversed(VIEWS):
            connection.execute(text(f"DROP VIEW {name}"))
        for table, column in (("node_peaks", "max_gpu_power_w"), ("pod_peaks", "p95_cpu_util_pct"),
                              ("insights", "steps_per_s"), ("gpu_events", "mig"),
                              ("usage_hours", "gpu_sm_s"), ("usage_days", "gpu_tensor_s"),
                              ("usage_hours", "gpu_working_s")):  # fmt: skip
            connection.execute(text(f"ALTER TABLE {table} DROP COLUMN {column}"))
    older = r"gpu_sm_s.*; they are older than this Dutycycle: start its sink with them once"
    with pytest.raises(DutycycleError, match=older), reading(records_url) as connection:
        connection.execute(text("SELECT gpu_sm_s FROM usage_hours"))
    with RecordsWriter(records_url) as writer:
        writer.write("pod-peaks", encode(made.pod_peaks(metrics={"cpu_util_pct": made.peak(90, p95=80)})))
    with engine.connect() as connection:
        assert connection.execute(text("SELECT p95_cpu_util_pct FROM pods")).scalars().all() == [80]
        assert connection.execute(text("SELECT max_gpu_power_w FROM node_days")).all() == []
        assert connection.execute(text("SELECT steps_per_s FROM pods")).all() == [(None,)]
        assert connection.execute(text("SELECT mig FROM gpu_events")).all() == []
        assert connection.execute(text("SELECT gpu_sm_s, gpu_tensor_s FROM usage")).all() == []
    engine.dispose()


def test_a_view_that_reads_one_that_is_made_anew_is_named(postgres_url: str) -> None:
    with RecordsWriter(postgres_url):
        pass
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE VIEW mine AS SELECT namespace FROM pods"))
        connection.execute(text("DROP VIEW nodes, node_days"))
        connection.execute(text("ALTER TABLE node_peaks DROP COLUMN max_gpu_power_w"))
    refused = pytest.raises(DutycycleError, match=r"the view pods has to be made anew.*; drop the views")
    with refused, RecordsWriter(postgres_url):
        pass
    with engine.begin() as connection:
        assert connection.execute(text("SELECT namespace FROM mine")).all() == []
        connection.execute(text("DROP VIEW mine"))
    with RecordsWriter(postgres_url), engine.connect() as connection:
        assert connection.execute(text("SELECT max_gpu_power_w FROM node_days")).all() == []
    engine.dispose()
