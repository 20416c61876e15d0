"""Opens and checks the spool's SQLite file, and puts it aside when it is damaged."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY_CODE = 0xFF  # SQLite's extended codes have the primary one in their lowest byte
_SHRINK_PAGES = 500
_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 256;
PRAGMA journal_size_limit = 0;
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, key TEXT NOT NULL,
    ts_ms INTEGER NOT NULL, payload BLOB
);
"""


def is_damage(error: BaseException | None) -> bool:
    """Tell whether an error says that the file itself is broken, which no later try mends."""
    return getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE in _DAMAGE


def put_aside(path: Path) -> None:
    """Move a damaged file to ``….damaged``, where it can be examined."""
    path.replace(path.with_suffix(".damaged"))
    for extra in ("-wal", "-shm"):
        path.with_name(path.name + extra).unlink(missing_ok=True)


class SpoolFile:
    """Holds a database with the table ``record``. Raises ``sqlite3.Error``.

    Write-ahead mode with ``synchronous=NORMAL`` makes a transaction cheap: it survives the death of the
    process; of what was written just before a power cut, the newest may be missing.
    """

    def __init__(self, path: Path) -> None:
        self.was_damaged = False
        """Whether a file of before could not be read, and was put aside as ``….damaged``."""
        try:
            self.database = _connect(path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            put_aside(path)  # a damaged spool must not keep the node blind
            self.was_damaged = True
            self.database = _connect(path)
        self._page_bytes = self._pragma("page_size")

    def used_bytes(self) -> int:
        """Return the pages that hold something, also within a transaction that is not over."""
        return (self._pragma("page_count") - self._pragma("freelist_count")) * self._page_bytes

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Run what is done inside as a transaction: all of it, or nothing."""
        self.database.execute("BEGIN IMMEDIATE")
        try:
            yield self.database
            self.database.execute("COMMIT")
        except BaseException:
            if self.database.in_transaction:  # a full disk may have rolled it back already
                self.database.execute("ROLLBACK")
            raise

    def last_id(self) -> int:
        """Return the highest id that a record ever had."""
        query = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'record'"
        return int(self.database.execute(query).fetchone()[0])

    def begin_after(self, number: int) -> None:
        """Let the ids of records go on after ``number``."""
        self.database.execute("DELETE FROM sqlite_sequence WHERE name = 'record'")
        self.database.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('record', ?)", (number,))

    def shrink(self) -> None:
        """Give the free pages back, a few at a time: each time writes about as much beside the file."""
        while self._pragma("freelist_count"):
            # By executescript, which steps to the end: this pragma frees one page a step.
            self.database.executescript(f"PRAGMA incremental_vacuum({_SHRINK_PAGES})")

    def close(self) -> None:
        self.database.close()

    def _pragma(self, name: str) -> int:
        return int(self.database.execute(f"PRAGMA {name}").fetchone()[0])


def _connect(path: Path) -> sqlite3.Connection:
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    try:
        database.executescript(_SCHEMA)
        if (verdict := database.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            damage = sqlite3.DatabaseError(verdict)
            damage.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise damage
    except sqlite3.Error:
        database.close()
        raise
    return database
