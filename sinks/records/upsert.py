"""Writes sets of rows into a table, joined with what is stored, inside a transaction. Knows SQLAlchemy."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from sqlalchemy import Connection, Text, bindparam, cast, select, update
from sqlalchemy.dialects import postgresql, sqlite

from contract.codec import decode
from contract.records.derived import JobPeaks, PodPeaks
from sinks.records.merge import covers, join, whole
from sinks.records.rows import KEYS, POD_TABLE, Row, job_row, pod_row, row_of
from sinks.records.schema import TABLES

_AT_ONCE = 500
_Held = Mapping[str, Sequence[Row]]
"""Rows of one table by key: a set each, as ``records_merge`` defines it."""


def write(connection: Connection, table: str, held: _Held) -> None:
    """Join every set with the stored one of its key, and store the result."""
    keys = list(held)
    for start in range(0, len(keys), _AT_ONCE):
        waiting = {key: held[key] for key in keys[start : start + _AT_ONCE]}
        while waiting:
            there = _locked(connection, table, waiting)
            _update(connection, table, _changed(connection, table, there, waiting))
            new = {key: rows for key, rows in waiting.items() if key not in there}
            inserted = _insert(connection, table, [whole(rows) for rows in new.values()])
            # Another writer may have inserted a key meanwhile: then it is there in the next round.
            waiting = {key: rows for key, rows in new.items() if key not in inserted}


def _locked(connection: Connection, table: str, keys: Iterable[str]) -> dict[str, Row]:
    """What is stored of the keys, without the records themselves, locked against other writers."""
    columns = TABLES[table].c
    key = columns[KEYS[table]]
    plain = [column for column in columns if column.name != "record"]
    query = select(*plain).where(key.in_(list(keys))).order_by(key).with_for_update()
    rows = [row_of(table, dict(found)) for found in connection.execute(query).mappings()]
    return {row.key: row for row in rows}


def _changed(connection: Connection, table: str, there: Mapping[str, Row], held: _Held) -> list[Row]:
    rows = []
    for key, stored in there.items():
        if len(held[key]) == 1 and stored.values["parts"] is None and covers(held[key][0], stored):
            rows.append(held[key][0])
        elif not all(_known(stored, row) for row in held[key]):
            rows.append(_joined(_set(connection, table, key, stored), held[key]))
    return rows


def _known(stored: Row, row: Row) -> bool:
    return stored.values["parts"] is None and covers(stored, row)


def _joined(stored: Sequence[Row], rows: Sequence[Row]) -> Row:
    both = list(stored)
    for row in rows:
        both = join(both, row)
    return whole(both)


def _set(connection: Connection, table: str, key: str, stored: Row) -> list[Row]:
    """The set that is stored under a key."""
    columns = TABLES[table].c
    if stored.values["parts"] is None:
        record = connection.scalar(select(cast(columns.record, Text)).where(columns[KEYS[table]] == key))
        return [_row(table, str(record).encode())]
    return [_row(table, orjson.dumps(one)) for one in orjson.loads(stored.values["parts"])]


def _row(table: str, text: bytes) -> Row:
    if table == POD_TABLE:
        return pod_row(decode(PodPeaks, text, "pod-peaks"))
    return job_row(decode(JobPeaks, text, "job-peaks"))


def _insert(connection: Connection, table: str, rows: Sequence[Row]) -> set[str]:
    """The keys that were inserted; the others were there."""
    if not rows:
        return set()
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    key = KEYS[table]
    statement = dialect.insert(TABLES[table]).on_conflict_do_nothing(index_elements=[key])
    found = connection.execute(statement.returning(TABLES[table].c[key]), [row.values for row in rows])
    return set(found.scalars())


def _update(connection: Connection, table: str, rows: Sequence[Row]) -> None:
    if not rows:
        return
    columns, key = TABLES[table].c, KEYS[table]
    changed: dict[str, Any] = {
        column.name: bindparam(f"new_{column.name}") for column in columns if column.name != key
    }
    statement = update(TABLES[table]).where(columns[key] == bindparam("of_key")).values(changed)
    values = [{f"new_{name}": row.values[name] for name in changed} | {"of_key": row.key} for row in rows]
    connection.execute(statement, values)
