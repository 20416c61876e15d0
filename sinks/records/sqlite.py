"""SQLite, set up so that one process writes while others read, and nothing that was committed is undone."""

import sqlite3
import time
from typing import Any

from sqlalchemy import Connection, Engine, event

_BUSY_S = 5.0
_POLL_S = 0.02
_PRIMARY_CODE = 0xFF


def prepare_writer(engine: Engine) -> None:
    """Let every connection of ``engine`` write beside readers and other writers."""
    event.listen(engine, "connect", _set_up)
    event.listen(engine, "begin", _begin_immediate)


def _set_up(connection: Any, _record: Any) -> None:
    connection.isolation_level = None  # or the driver begins transactions of its own, too late
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(_BUSY_S * 1000)}")
    _enter_wal(cursor)
    # FULL: Kafka's offsets are committed after our write, so a power cut must not undo it.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.close()


def _enter_wal(cursor: Any) -> None:
    """The write-ahead log, in which readers and the writer do not wait for each other."""
    end = time.monotonic() + _BUSY_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            # The switch needs the file alone for a moment, and does not wait for it by itself.
            if error.sqlite_errorcode & _PRIMARY_CODE != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
            time.sleep(_POLL_S)
        else:
            return


def _begin_immediate(connection: Connection) -> None:
    # A transaction that reads first and writes then can fail at once when another one writes in between.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
