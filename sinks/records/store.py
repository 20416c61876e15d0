"""Opens and checks the database of records, writes it in transactions, and makes errors plain.

The border to SQLAlchemy: what leaves here is ``RecordsRefusedError`` (at start), ``RecordsAwayError``
(try again later) or a list of rows that no later try could write. No message holds a password.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Text,
    and_,
    bindparam,
    cast,
    column,
    exc,
    func,
    not_,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql.dml import ReturningInsert

from dutycycle.contract.errors import DutycycleError
from sinks.records.engine import LOCKED, is_unreachable, make_engine, reason_of
from sinks.records.merge import merge
from sinks.records.prices import PriceList, set_prices
from sinks.records.rollup import KEEP, Retention, roll_up
from sinks.records.rows import COUNTS, HOUR_TABLE, KEYS, MAXIMA, NODE_TABLE, POD_TABLE, UNNAMED, SqlRow
from sinks.records.tables.columns import Document
from sinks.records.tables.schema import TABLES, prepare, rolled_up
from sinks.records.url import parse_records_url, shown, sqlite_path

# A worker that is frozen in the middle of writing holds its rows no longer than others wait for them.
_POSTGRESQL_LIMITS = (
    "SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '30s'; "
    "SET LOCAL idle_in_transaction_session_timeout = '5s'"
)
# PostgreSQL takes no parameter of 1 GB, and needs a multiple of it in memory.
_ARRAY_LENGTH = 16_000_000
# What a later try cannot mend: the value itself is the trouble. All else may pass, a full disk too.
_PERMANENT = (exc.DataError, exc.IntegrityError)
_DOCUMENTS = {
    name: [document.name for document in table.c if isinstance(document.type, Document)]
    for name, table in TABLES.items()
}
Key = tuple[str, ...]


class RecordsRefusedError(DutycycleError):
    """Says that the database cannot be used at all; said at start."""


class RecordsUnreachableError(RecordsRefusedError):
    """Says that the database server does not answer, or is just starting: a later try may find it."""


class RecordsAwayError(DutycycleError):
    """Says that the database cannot be written at the moment; the batch is to be put again."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """Names a row that no database can take, or this one never will, and why."""

    table: str
    key: str
    reason: str


_NO_ROOM = ("is full", "No space left", "Disk quota exceeded", "File too large")
"""How SQLite, PostgreSQL and the system say that there is no room."""
_IO_ERROR = "disk I/O error"
"""How SQLite says that writing failed where the disk has room: by a quota, a limit or a fault."""


def _has_no_room(reason: str) -> bool:
    return any(words in reason for words in _NO_ROOM)


class RecordsStore:
    """Writes a database of records. Used by one thread at a time; ``close`` it.

    ``prices`` hold from the hour on in which it is opened, if they are others than before; None leaves those
    that are there. ``retention``: how long usage is kept.
    """

    def __init__(self, url: str, *, prices: PriceList | None = None, retention: Retention = KEEP) -> None:
        self._prices = prices
        self._retention = retention
        self.url = parse_records_url(url)
        self.name = shown(self.url)
        self._engine = make_engine(self.url)
        self._new_file: Path | None = None

    def open(self) -> None:
        """Make the schema where there is none. Raises ``RecordsRefusedError`` with the fix.

        It is a ``RecordsUnreachableError`` where waiting may be enough.
        """
        path = sqlite_path(self.url)
        try:
            if path is not None:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._new_file = None if path.exists() else path
            with self._begin() as connection:
                prepare(connection)
                if self._prices is not None:
                    set_prices(connection, self._prices)
        except (DutycycleError, exc.SQLAlchemyError, OSError) as error:
            reason = reason_of(error, self.url)
            self.close()
            self.discard_new_file(reason)
            kind = RecordsUnreachableError if is_unreachable(error, reason) else RecordsRefusedError
            raise kind(
                f"cannot keep peak records in {self.name}: {reason}; {self.find_remedy(reason)}"
            ) from None  # the cause's own text may hold the password

    def find_remedy(self, reason: str) -> str:
        """Say what to do when it cannot be written for a ``reason``."""
        if _has_no_room(reason):
            fix = "make room there"
        elif reason == LOCKED:
            fix = "end the program that writes to it, or wait for it"
        elif _IO_ERROR in reason:
            fix = "see whether there is room, a quota that is used up or a fault of the disk"
        else:
            fix = "make it writable" if sqlite_path(self.url) else "check that it runs and lets us write"
        return f"{fix}, or change DUTYCYCLE_RECORDS"

    def put(self, rows: Sequence[SqlRow]) -> list[RefusedRow]:
        """Write rows in one transaction, each merged with what is stored of its key (``records.merge``).

        Returns the rows that can never be written. Raises ``RecordsAwayError``: then put the same rows again.
        """
        try:
            self._write(rows)
        except (*_PERMANENT, OverflowError, ValueError) as error:  # ValueError: what is stored is no record
            if len(rows) == 1:
                return [RefusedRow(rows[0].table, rows[0].name, reason_of(error, self.url))]
            half = len(rows) // 2  # upserts repeat without harm, so halves may be written on their own
            return self.put(rows[:half]) + self.put(rows[half:])
        except (exc.SQLAlchemyError, OSError) as error:
            raise RecordsAwayError(f"{self.name}: {reason_of(error, self.url)}") from None
        return []

    def roll_up(self) -> int:
        """Make days of the hours that are older than the retention, and forget days that are; how many rows
        that were. Raises ``RecordsAwayError``."""
        try:
            with self._begin() as connection:
                return roll_up(connection, self._retention)
        except (exc.SQLAlchemyError, OSError) as error:
            raise RecordsAwayError(f"{self.name}: {reason_of(error, self.url)}") from None

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def discard_new_file(self, reason: str) -> None:
        """Take away a file that was made here, after writing has failed for want of room: it takes what room
        there is, and holds a part only. To be called when closed."""
        if self._new_file is None or not (_has_no_room(reason) or _IO_ERROR in reason):
            return
        for end in ("", "-wal", "-shm"):
            self._new_file.with_name(self._new_file.name + end).unlink(missing_ok=True)

    def _write(self, rows: Sequence[SqlRow]) -> None:
        with self._begin() as connection:
            if any(row.table == HOUR_TABLE for row in rows):
                until = connection.scalar(select(rolled_up.c.until).with_for_update(read=True)) or ""
                rows = [row for row in rows if row.table != HOUR_TABLE or row.values["hour"] >= until]
            for name in TABLES:
                _write(connection, name, [row for row in rows if row.table == name])

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                # Local to the transaction, so that a pooler between us hands nothing on to others.
                connection.execute(text(_POSTGRESQL_LIMITS))
            yield connection


def _write(connection: Connection, table: str, rows: Sequence[SqlRow]) -> None:
    """Store each row that covers what is there of its key; merge the few others with it."""
    if not rows:
        return
    by_key: dict[Key, SqlRow] = {}
    for row in rows:
        by_key[row.key] = merge(by_key[row.key], row) if row.key in by_key else row
    # Sorted: two writers then lock rows in the same order.
    in_order = [by_key[key] for key in sorted(by_key)]
    dialect = connection.dialect.name
    parts: Iterable[Any] = ({"rows": part} for part in json_arrays(in_order))
    if dialect == "sqlite":
        parts = [[row.values for row in in_order]]
    # Rows that were new or covered what was there are written; the others are locked from now on.
    upsert = _upsert_statement(table, dialect)
    written = {tuple(key) for part in parts for key in connection.execute(upsert, part)}
    others = by_key.keys() - written
    if table not in COUNTS or not others:
        return  # what is stored says more
    columns, [name] = TABLES[table].c, KEYS[table]
    read = [
        cast(selected, Text).label(selected.name) if isinstance(selected.type, Document) else selected
        for selected in columns
    ]
    query = select(*read).where(columns[name].in_([key for (key,) in others]))
    new: dict[str, Any] = {
        column.name: bindparam(f"new_{column.name}") for column in columns if column.name != name
    }
    changed = []
    for mapping in connection.execute(query).mappings():
        stored = SqlRow(table, dict(mapping))
        row = merge(stored, by_key[stored.key])
        if row is not stored:
            values = {f"new_{column_name}": row.values[column_name] for column_name in new}
            changed.append(values | {"of_key": row.values[name]})
    if changed:
        statement = update(TABLES[table]).where(columns[name] == bindparam("of_key"))
        connection.execute(statement.values(new), changed)


@cache
def _upsert_statement(table: str, dialect: str) -> ReturningInsert[Any]:
    """Return the statement for rows of a table. In PostgreSQL all rows are one parameter: one for each value
    takes the driver 40 times the CPU."""
    columns, keys = TABLES[table].c, KEYS[table]
    insert: Any = (postgresql if dialect == "postgresql" else sqlite).insert(TABLES[table])
    if dialect == "postgresql":
        names_and_types = [column(plain_column.name, plain_column.type) for plain_column in columns]
        rows = func.json_to_recordset(cast(bindparam("rows", type_=Text()), postgresql.JSON))
        new = rows.table_valued(*names_and_types).render_derived(name="new", with_types=True)
        insert = insert.from_select(columns.keys(), select(new))
    upsert: Insert = insert.on_conflict_do_update(
        index_elements=keys,
        set_={
            inserted.name: insert.excluded[inserted.name] for inserted in columns if inserted.name not in keys
        },
        where=covering(table, insert.excluded, columns),
    )
    return upsert.returning(*(columns[key] for key in keys))


def json_arrays(rows: Iterable[SqlRow], most: int = _ARRAY_LENGTH) -> Iterator[str]:
    """Yield the rows in order, in JSON arrays no longer than ``most`` unless a row alone is. Records stay as
    is."""
    some: list[str] = []
    length = 0
    for row in rows:
        documents = {name: orjson.Fragment(row.values[name]) for name in _DOCUMENTS[row.table]}
        text = orjson.dumps(row.values | documents).decode()
        if some and length + len(text) > most:
            yield f"[{','.join(some)}]"
            some, length = [], 0
        some.append(text)
        length += len(text)
    yield f"[{','.join(some)}]"


def covering(table: str, new: Any, old: Any) -> ColumnElement[bool]:
    """Return ``merge.covers`` in SQL, of two rows given by their columns."""
    if table == HOUR_TABLE:
        seconds, known = _seconds(new), _seconds(old)
        return or_(seconds > known, and_(seconds == known, new.until >= old.until))
    if table == NODE_TABLE:
        more = new.samples > old.samples
        return or_(more, and_(new.samples == old.samples, new.last_at >= old.last_at))
    if table not in COUNTS:
        newer: ColumnElement[bool] = new.at >= old.at
        return newer
    count = COUNTS[table]
    conditions = [
        new.first_at <= old.first_at,
        new.last_at >= old.last_at,
        new[count] >= old[count],
        or_(new.final, not_(old.final), new.last_at > old.last_at, new[count] > old[count]),
        *(or_(old[name].is_(None), new[name] >= old[name]) for name in MAXIMA),
    ]
    if table == POD_TABLE:
        conditions.append(or_(not_(_unnamed(new)), _unnamed(old)))
    return and_(*conditions)


def _seconds(columns: Any) -> ColumnElement[float]:
    return func.coalesce(columns.gpu_s, 0.0) + func.coalesce(columns.pod_s, 0.0)


def _unnamed(columns: Any) -> ColumnElement[bool]:
    return and_(columns.name == columns.pod_uid, columns.phase == UNNAMED)
