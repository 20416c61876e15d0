"""Records on disk while the broker is away: in order, bounded, still there after a crash.

An SQLite database in write-ahead mode. ``synchronous=NORMAL`` makes an append cheap: it survives the death
of the process; of what was appended just before a power cut, the newest may be missing.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from collectors.base import Outgoing
from wire.errors import DutycycleError

_FILE = "spool.db"
_ROW_BYTES = 64
_EVICT_ROWS = 32
_LAST_ID = 2**63 - 1
_INSERT = "INSERT INTO record (topic, key, ts_ms, size, payload) VALUES (?, ?, ?, ?, ?)"
_HEAD = "SELECT id, topic, key, ts_ms, size, payload FROM record WHERE id > ? ORDER BY id LIMIT ?"
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_SCHEMA = """
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = NORMAL;
PRAGMA wal_autocheckpoint = 256;
PRAGMA journal_size_limit = 0;
CREATE TABLE IF NOT EXISTS record (
    id INTEGER PRIMARY KEY AUTOINCREMENT, topic TEXT NOT NULL, key TEXT NOT NULL,
    ts_ms INTEGER NOT NULL, size INTEGER NOT NULL, payload BLOB
);
"""


class SpoolError(DutycycleError):
    """The spool cannot be used: names the folder, the reason and what to do."""


class SpoolBusyError(SpoolError):
    """Another collector uses the folder."""


class SpoolWriteError(Exception):
    """The disk did not take records: full, or broken. Nothing was stored of them."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """A record with its place in the spool."""

    id: int
    record: Outgoing


@dataclass(frozen=True, slots=True)
class Appended:
    """Where records went: the id of the first (the others follow), and how many of the oldest had to go."""

    first_id: int
    dropped: int


class Spool:
    """First in, first out, on disk. One at a time may use a folder; calls may come from any one thread.

    ``most_bytes`` bounds what is stored; the file is at most a few percent and two megabytes larger.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Open, or create. Raises ``SpoolError``, ``SpoolBusyError``."""
        self.folder = folder
        self.was_damaged = False
        """Whether a spool of before could not be read, and was put aside as ``spool.damaged``."""
        self._most_bytes = most_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SpoolError(f"{_unusable(folder)}: {error.strerror}") from error
        try:
            self._take_lock()
            self._database = self._open()
            self._gone = 0
            self._count, self._size = _measure(self._database, 0, _LAST_ID)
        except BaseException:
            os.close(self._lock)
            raise

    def __len__(self) -> int:
        """How many records are stored."""
        return self._count

    @property
    def size_bytes(self) -> int:
        """How much is stored, as the bound counts it."""
        return self._size

    def append(self, records: Sequence[Outgoing], *, keep_through: int = 0) -> Appended:
        """Store all of ``records`` behind the others, or none of them.

        Past the bound the oldest go, but none with an id up to ``keep_through``: those are being sent.
        Raises ``SpoolWriteError``.
        """
        rows = [(one.topic, one.key, one.ts_ms, size_of(one), one.payload) for one in records]
        added = sum(row[3] for row in rows)
        last = 0
        try:
            with self._transaction() as database:
                for row in rows:
                    last = database.execute(_INSERT, row).lastrowid or 0
                dropped, freed = self._evict(self._size + added - self._most_bytes, keep_through)
        except sqlite3.Error as error:
            raise SpoolWriteError(str(error)) from error
        self._count += len(rows) - dropped
        self._size += added - freed
        return Appended(last - len(rows) + 1, dropped)

    def head(self, most: int, most_bytes: int) -> list[Spooled]:
        """The oldest records: at most ``most``, about ``most_bytes``, and one at least if there is any."""
        found: list[Spooled] = []
        total = 0
        rows = self._database.execute(_HEAD, (self._gone, most))
        for number, topic, key, ts_ms, size, payload in rows:
            total += size
            if found and total > most_bytes:
                break
            found.append(Spooled(number, Outgoing(topic=topic, key=key, payload=payload, ts_ms=ts_ms)))
        rows.close()
        return found

    def acknowledge(self, through: int) -> None:
        """Delete the records with an id up to ``through``.

        Raises ``SpoolWriteError``; they are not given out again even so, unless the process ends before a
        later deletion succeeds.
        """
        try:
            count, size = _measure(self._database, self._gone, through)
            self._count, self._size, self._gone = self._count - count, self._size - size, through
            with self._transaction() as database:
                database.execute("DELETE FROM record WHERE id <= ?", (through,))
            if not self._count:
                self._shrink()
        except sqlite3.Error as error:
            raise SpoolWriteError(str(error)) from error

    def close(self) -> None:
        """Let go of the folder; what is stored stays."""
        self._database.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise SpoolBusyError(
                f"the spool {self.folder} is in use by another collector: stop it, or give DUTYCYCLE_SPOOL"
            ) from error

    def _open(self) -> sqlite3.Connection:
        path = self.folder / _FILE
        try:
            return _connect(path)
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorcode not in _DAMAGE:
                raise SpoolError(f"{_unusable(self.folder)}: {error}") from error
        # A damaged spool must not keep the node blind. It is put aside for whoever wants to look at it.
        path.replace(path.with_suffix(".damaged"))
        for extra in ("-wal", "-shm"):
            path.with_name(_FILE + extra).unlink(missing_ok=True)
        self.was_damaged = True
        return _connect(path)

    def _shrink(self) -> None:
        """Give the free pages back, a few at a time: each time writes about as much beside the file."""
        while self._database.execute("PRAGMA freelist_count").fetchone()[0]:
            # By executescript, which steps to the end: this pragma frees one page a step.
            self._database.executescript("PRAGMA incremental_vacuum(500)")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield self._database
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:  # a full disk may have rolled it back already
                self._database.execute("ROLLBACK")
            raise

    def _evict(self, excess: int, keep_through: int) -> tuple[int, int]:
        dropped = freed = 0
        while freed < excess:
            oldest = self._database.execute(
                "SELECT id, size FROM record WHERE id > ? ORDER BY id LIMIT ?",
                (max(keep_through, self._gone), _EVICT_ROWS),
            ).fetchall()
            if not oldest:
                break
            for number, size in oldest:
                if freed >= excess:
                    break
                self._database.execute("DELETE FROM record WHERE id = ?", (number,))
                dropped, freed = dropped + 1, freed + size
        return dropped, freed


def size_of(record: Outgoing) -> int:
    """What a record weighs where records are bounded, bytes."""
    return len(record.payload or b"") + len(record.key) + len(record.topic) + _ROW_BYTES


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


def _measure(database: sqlite3.Connection, after: int, through: int) -> tuple[int, int]:
    count, size = database.execute(
        "SELECT count(*), coalesce(sum(size), 0) FROM record WHERE id > ? AND id <= ?", (after, through)
    ).fetchone()
    return int(count), int(size)


def _unusable(folder: Path) -> str:
    return f"the spool {folder} cannot be written (give a folder that can be by DUTYCYCLE_SPOOL)"
