"""How a batch goes to the database: in few statements, in the order of keys, and with every value exact."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Text, cast, create_engine, event, select

from dutycycle.contract.catalogue import PEAK_COLUMNS
from dutycycle.contract.records.derived import PodPeaks
from sinks.records.query import job_peaks, pod_peaks
from sinks.records.rows import job_row, pod_row
from sinks.records.store import RecordsStore, json_arrays
from sinks.records.tables.columns import Document
from sinks.records.tables.schema import TABLES
from tests.support.sinks import made
from tests.support.sinks.recording import open_store

Insert = tuple[Any, int]
"""The parameters of an INSERT, and of which transaction it is."""


@contextmanager
def inserting(url: str) -> Iterator[tuple[RecordsStore, list[Insert]]]:
    """A store, and what it inserts from now on."""
    store, inserts, commits = RecordsStore(url), [], []
    store.open()

    @event.listens_for(store._engine, "commit")
    def _(_connection: Any) -> None:
        commits.append(1)

    @event.listens_for(store._engine, "before_cursor_execute")
    def _(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if statement.startswith("INSERT"):
            inserts.append((parameters, len(commits)))

    yield store, inserts
    store.close()


def test_a_batch_has_few_parameters_in_postgresql(postgres_url: str) -> None:
    """However many rows: with one for each value, the driver was ten times slower than the server."""
    records = [made.pod_peaks(f"uid-{i:03}") for i in range(500)]
    with inserting(postgres_url) as (store, inserts):
        assert store.put([pod_row(one) for one in reversed(records)]) == []
    [(parameters, _)] = inserts
    assert len(parameters) < 5
    assert [one["pod_uid"] for one in json.loads(parameters["rows"])] == [
        one.pod.uid for one in records
    ]  # locked so
    assert pod_peaks(postgres_url) == records


def test_a_batch_of_large_records_is_several_statements_in_one_transaction(postgres_url: str) -> None:
    """A parameter has a limit; and what stands in none of them is not lost."""
    records = [made.pod_peaks(f"uid-{i}", {"images": (f"{i}" * 5_000_000,)}) for i in range(5)]
    with inserting(postgres_url) as (store, inserts):
        assert store.put([pod_row(one) for one in records]) == []
    assert [transaction for _, transaction in inserts] == [0, 0]
    assert pod_peaks(postgres_url) == records


@given(st.lists(st.integers(0, 300), min_size=1, max_size=30), st.integers(800, 3_000))
def test_arrays_have_every_row_once_and_in_order(sizes: list[int], most: int) -> None:
    rows = [pod_row(made.pod_peaks(f"uid-{i}", {"phase": "x" * size})) for i, size in enumerate(sizes)]
    arrays = [json.loads(array) for array in json_arrays(rows, most)]
    alone = [len(next(json_arrays([row], most))) - 2 for row in rows]
    assert [row["pod_uid"] for array in arrays for row in array] == [row.name for row in rows]
    taken = iter(alone)
    lengths = [[next(taken) for _ in array] for array in arrays]
    assert all(len(of) == 1 or sum(of) <= most for of in lengths)
    assert all(sum(one) + other[0] > most for one, other in pairwise(lengths))


def read(values: dict[str, Any]) -> dict[str, Any]:
    """A row whose documents are read: jsonb has its own order of keys, and its own way to write a number."""
    return values | {name: orjson.loads(values[name]) for name in ("record", "labels") if name in values}


FIGURES = (0.0, 0.1, 5e-324, 1.7976931348623157e308, 1e16, 123456789.123456789, 2.0**53 + 2, 1 / 3, 97)
NAMES = "Grüße 世界 😀 \\u0000 \\ \" ' \n\t\x1f \x7f { [ , %s :name $1"


@pytest.mark.parametrize("again", [False, True], ids=["new", "changed"])
def test_every_value_is_stored_exactly(records_url: str, again: bool) -> None:
    figures = {name: made.peak(most, most / 2) for name, most in zip(PEAK_COLUMNS, FIGURES, strict=False)}
    names = {"namespace": None, "name": NAMES, "phase": NAMES, "images": (NAMES,)}
    pod = made.pod_peaks(
        "uid-1", names, metrics=figures, last_ms=4_102_444_799_999, samples=2**53 + 1, final=True
    )
    job = made.job_peaks("job-1", namespace=NAMES, metrics=figures)
    store = open_store(records_url)
    if again:
        store.put(
            [
                pod_row(made.pod_peaks("uid-1", samples=1, metrics={})),
                job_row(made.job_peaks("job-1", metrics={})),
            ]
        )
    for row in (pod_row(pod), job_row(job)):
        assert store.put([row]) == []
        assert set(row.values) == set(TABLES[row.table].c.keys())
        engine = create_engine(records_url)
        columns = [
            cast(one, Text).label(one.name) if isinstance(one.type, Document) else one
            for one in TABLES[row.table].c
        ]
        with engine.connect() as connection:
            [found] = connection.execute(select(*columns)).mappings().all()
        engine.dispose()
        assert read(dict(found)) == read(row.values)
    store.close()


def test_a_number_that_a_column_cannot_hold_is_told_and_its_neighbours_are_kept(postgres_url: str) -> None:
    jobs = [made.job_peaks(f"job-{i}", pods_omitted=2**40 if i == 3 else None) for i in range(7)]
    pods: list[PodPeaks] = [made.pod_peaks(f"uid-{i}") for i in range(3)]
    store = open_store(postgres_url)
    [refused] = store.put([*(job_row(one) for one in jobs), *(pod_row(one) for one in pods)])
    store.close()
    assert (refused.table, refused.key) == ("job_peaks", "job-3")
    assert "out of range for type integer" in refused.reason
    assert job_peaks(postgres_url) == jobs[:3] + jobs[4:]
    assert pod_peaks(postgres_url) == pods
