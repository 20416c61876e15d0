"""The tables and views are those that the contract names, on both databases."""

from sqlalchemy import create_engine, inspect

from docs.generate_contract import page
from sinks.records.rows import FIGURES, NODE_FIGURES
from sinks.records.tables.schema import OTHER_TABLES, TABLES
from sinks.records.tables.views import VIEWS
from sinks.records.writer import RecordsWriter

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
