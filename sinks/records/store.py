"""The database of peak records: opened and checked, written in transactions, errors made plain.

The border to SQLAlchemy: what leaves here is ``RecordsRefusedError`` (at start), ``RecordsAwayError``
(try again later) or a list of rows that no later try could write. No message holds a password.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import URL, Connection, Engine, create_engine, exc, text

from contract.errors import DutycycleError
from sinks.records.merge import joined
from sinks.records.rows import Row
from sinks.records.schema import TABLES, prepare
from sinks.records.sqlite import prepare_writer
from sinks.records.upsert import write
from sinks.records.url import parse_records_url, redacted, shown, sqlite_path

_POSTGRESQL_OPTIONS = {
    "application_name": "dutycycle",
    "connect_timeout": "5",
    # Without these a server that vanished is noticed only after the kernel's quarter of an hour.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_REASON_LENGTH = 300
# A worker that is frozen in the middle of writing holds its rows no longer than others wait for them.
_POSTGRESQL_LIMITS = (
    "SET LOCAL lock_timeout = '10s'; SET LOCAL statement_timeout = '30s'; "
    "SET LOCAL idle_in_transaction_session_timeout = '5s'"
)
# What a later try cannot mend: the value itself is the trouble. All else may pass, a full disk too.
_PERMANENT = (exc.DataError, exc.IntegrityError)
_NO_CONNECTION = ("connection failed", "connection is bad", "connection timeout", "failed to resolve host")
_PASSING = ("is starting up", "is shutting down", "not yet accepting connections", "too many clients")


class RecordsRefusedError(DutycycleError):
    """The database cannot be used at all; said at start."""


class RecordsUnreachableError(RecordsRefusedError):
    """The database server does not answer, or is just starting: a later try may find it."""


class RecordsAwayError(DutycycleError):
    """The database cannot be written at the moment; the batch is to be put again."""


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A row that no database can take, or this one never will, and why."""

    table: str
    key: str
    reason: str


class RecordsStore:
    """A database of peak records. Used by one thread at a time; ``close`` it."""

    def __init__(self, url: str) -> None:
        self.url = parse_records_url(url)
        self.name = shown(self.url)
        self._engine = make_engine(self.url)

    def open(self) -> None:
        """Make the schema where there is none. Raises ``RecordsRefusedError`` with the fix.

        It is a ``RecordsUnreachableError`` where waiting may be enough.
        """
        try:
            _make_folder(self.url)
            with self._begin() as connection:
                prepare(connection)
        except (DutycycleError, exc.SQLAlchemyError, OSError) as error:
            self.close()
            reason = reason_of(error, self.url)
            fix = "make it writable" if sqlite_path(self.url) else "check that it runs and lets us write"
            kind = RecordsUnreachableError if _unreachable(error, reason) else RecordsRefusedError
            raise kind(
                f"cannot keep peak records in {self.name}: {reason}; {fix}, or change DUTYCYCLE_RECORDS"
            ) from None  # the cause's own text may hold the password

    def put(self, rows: Sequence[Row]) -> list[RefusedRow]:
        """Write rows in one transaction, each joined with what is stored of its key (``records_merge``).

        Returns the rows that can never be written. Raises ``RecordsAwayError``: then put the same rows again.
        """
        try:
            self._write(rows)
        except (*_PERMANENT, OverflowError, ValueError) as error:  # ValueError: what is stored is no record
            if len(rows) == 1:
                return [RefusedRow(rows[0].table, rows[0].key, reason_of(error, self.url))]
            half = len(rows) // 2  # upserts repeat without harm, so halves may be written on their own
            return self.put(rows[:half]) + self.put(rows[half:])
        except (exc.SQLAlchemyError, OSError) as error:
            raise RecordsAwayError(f"{self.name}: {reason_of(error, self.url)}") from None
        return []

    def close(self) -> None:
        """Give the connections back."""
        self._engine.dispose()

    def _write(self, rows: Sequence[Row]) -> None:
        with self._begin() as connection:
            held = joined(rows)
            for name in TABLES:
                write(connection, name, {key: mine for (table, key), mine in held.items() if table == name})

    @contextmanager
    def _begin(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                # Local to the transaction, so that a pooler between us hands nothing on to others.
                connection.execute(text(_POSTGRESQL_LIMITS))
            yield connection


def make_engine(url: URL, *, writing: bool = True) -> Engine:
    """An engine with one connection; SQLite lets readers and a writer work at once."""
    if sqlite_path(url) is None:
        return create_engine(url, pool_size=1, max_overflow=0, connect_args=_options(url))
    engine = create_engine(url, pool_size=1, max_overflow=0)
    if writing:
        prepare_writer(engine)
    return engine


def _unreachable(error: BaseException, reason: str) -> bool:
    """Whether no connection came about, and not because a server said no."""
    if not isinstance(error, exc.OperationalError) or getattr(error.orig, "sqlstate", None) is not None:
        return False
    if "FATAL" not in reason:  # what libpq says by itself; a server's own words come behind this one
        return reason.startswith(_NO_CONNECTION)
    return any(words in reason for words in _PASSING)


def _options(url: URL) -> dict[str, str]:
    return {name: value for name, value in _POSTGRESQL_OPTIONS.items() if name not in url.query}


def _make_folder(url: URL) -> None:
    if path := sqlite_path(url):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)


def reason_of(error: BaseException, url: URL) -> str:
    """The driver's own words on one line, cut to 300 characters, without secrets."""
    inner = getattr(error, "orig", None) or error
    words = inner.strerror if isinstance(inner, OSError) and inner.strerror else str(inner)
    return redacted(" ".join(words.split()), url)[:_REASON_LENGTH] or type(inner).__name__
