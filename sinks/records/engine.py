"""Connects to the database of peak records, and says what its errors mean.

SQLite is set up so that one process writes while others read, and nothing that was committed is undone.
"""

import os
import sqlite3
import time
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc

from sinks.records.url import redacted, sqlite_path

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
_NO_CONNECTION = ("connection failed", "connection is bad", "connection timeout", "failed to resolve host")
_PASSING = ("is starting up", "is shutting down", "not yet accepting connections", "too many clients")
LOCKED = "database is locked"
"""What SQLite says when another program has written to the file for ``_BUSY_S``."""
_BUSY_S = 5.0
_POLL_S = 0.02
_PRIMARY_CODE = 0xFF  # SQLite's extended codes have the primary one in their lowest byte


def make_engine(url: URL, *, writing: bool = True) -> Engine:
    """Return an engine with one connection; SQLite lets readers and a writer work at once."""
    path = sqlite_path(url)
    if path is None:
        options = {name: value for name, value in _POSTGRESQL_OPTIONS.items() if name not in url.query}
        return create_engine(url, pool_size=1, max_overflow=0, connect_args=options)
    if not writing and not os.access(path.parent, os.W_OK):
        log = path.with_name(f"{path.name}-wal")  # what was committed last may still stand there
        if not (log.exists() and log.stat().st_size > 0):
            # Readers of a write-ahead log need files of their own beside it, which such a folder cannot take.
            whole = {"mode": "ro", "immutable": "1", "uri": "true"}
            url = url.set(database=f"file:{quote(str(path.absolute()))}", query=whole)
    engine = create_engine(url, pool_size=1, max_overflow=0)
    if writing:
        event.listen(engine, "connect", _set_up)
        event.listen(engine, "begin", _begin_immediate)
    return engine


def _set_up(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # or the driver begins transactions of its own, too late
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}")
    # The write-ahead log, in which readers and the writer do not wait for each other. The switch needs the
    # file alone for a moment, and does not wait for it by itself.
    end = time.monotonic() + _BUSY_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_POLL_S)
    # FULL: Kafka's offsets are committed after our write, so a power cut must not undo it.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _begin_immediate(connection: Connection) -> None:
    # A transaction that reads first and writes then can fail at once when another one writes in between.
    connection.exec_driver_sql("BEGIN IMMEDIATE")


def is_unreachable(error: BaseException, reason: str) -> bool:
    """Tell whether no connection came about, and not because a server said no; or SQLite's file is in use."""
    if not isinstance(error, exc.OperationalError) or getattr(error.orig, "sqlstate", None) is not None:
        return False
    if reason == LOCKED:
        return True
    if "FATAL" not in reason:  # what libpq says by itself; a server's own words come behind this one
        return reason.startswith(_NO_CONNECTION)
    return any(words in reason for words in _PASSING)


def reason_of(error: BaseException, url: URL) -> str:
    """Give the driver's own words on one line, cut to 300 characters, without secrets.

    A disk without room for the file beside SQLite's log is as full as one without room for the database:
    SQLite calls the one an I/O error.
    """
    inner = getattr(error, "orig", None) or error
    words = inner.strerror if isinstance(inner, OSError) and inner.strerror else str(inner)
    if getattr(inner, "sqlite_errorcode", None) == sqlite3.SQLITE_IOERR_SHMSIZE:
        words = "database or disk is full"
    return redacted(" ".join(words.split()), url)[:_REASON_LENGTH] or type(inner).__name__
