"""Keeps records on disk while the broker is unreachable: in order, bounded, still there after a crash."""

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import zstandard

from collectors.publish.spool_file import SpoolFile, put_aside
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ProducerRecord

_FILE = "spool.db"
_EVICT_EVERY = 64
_EVICT_ROWS = 8
_INSERT = "INSERT INTO record (topic, key, ts_ms, payload) VALUES (?, ?, ?, ?)"
_OLDEST = "SELECT id, topic, key, ts_ms, payload FROM record WHERE id > ? ORDER BY id LIMIT ?"
_EVICT = "DELETE FROM record WHERE id IN (SELECT id FROM record WHERE id > ? ORDER BY id LIMIT ?)"
_COUNT = "SELECT count(*) FROM record WHERE id > ? AND id <= ?"
_LAST_ID = 2**63 - 1  # the largest row that SQLite numbers


class SpoolError(DutycycleError):
    """Says that the spool cannot be used: the folder, the reason and what to do."""


class SpoolBusyError(SpoolError):
    """Says that another collector uses the folder."""


class SpoolWriteError(Exception):
    """Says that the disk did not take records: full, or broken. Nothing was stored of them."""


@dataclass(frozen=True, slots=True)
class Spooled:
    """Holds a record with its place in the spool."""

    id: int
    record: ProducerRecord


@dataclass(frozen=True, slots=True)
class Appended:
    """Says where records went: the id of the first (the others follow), and how many of the oldest had to
    go."""

    first_id: int
    dropped: int


class Spool:
    """Keeps records on disk, first in, first out. One at a time may use a folder; calls may come from any one
    thread.

    ``most_bytes`` bounds the pages of the file that hold something. Payloads are compressed (zstd): a
    sample takes a quarter of its size.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        """Open, or create. Raises ``SpoolError``, ``SpoolBusyError``."""
        self.folder = folder
        self._most_bytes = most_bytes
        self._pack = zstandard.ZstdCompressor()
        self._unpack = zstandard.ZstdDecompressor()
        self._acknowledged = 0
        self.unreadable = 0
        """How many records could not be read back, although the file as such could, and were left out."""
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise SpoolError(f"{_unusable(folder)}: {error.strerror}") from error
        try:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise SpoolBusyError(
                    f"the spool {folder} is in use by another collector: stop that one, or give this one a "
                    "DUTYCYCLE_SPOOL of its own, if it reports another node or reports to another broker"
                ) from error
            self._file = self._open()
        except BaseException:
            os.close(self._lock)
            raise

    def __len__(self) -> int:
        """Tell how many records are stored."""
        return self._count

    @property
    def was_damaged(self) -> bool:
        """Tell whether a spool of before could not be read, and was put aside as ``spool.damaged``."""
        return self._file.was_damaged

    def append(self, records: Sequence[ProducerRecord], *, keep_through: int = 0) -> Appended:
        """Store all of ``records`` behind the others, or none of them.

        Past the bound the oldest go, but none with an id up to ``keep_through``: those are being sent.
        Raises ``SpoolWriteError``.
        """
        last = dropped = 0
        spared = max(keep_through, self._acknowledged)
        try:
            with self._file.transaction() as database:
                for number, record in enumerate(records, 1):
                    packed = None if record.value is None else self._pack.compress(record.value)
                    row = (record.topic, record.key, record.ts_ms, packed)
                    last = database.execute(_INSERT, row).lastrowid or 0
                    if number % _EVICT_EVERY == 0 or number == len(records):
                        while self._file.used_bytes() > self._most_bytes:
                            gone = database.execute(_EVICT, (spared, _EVICT_ROWS)).rowcount
                            if not gone:
                                break
                            dropped += gone
                self.used_bytes = self._file.used_bytes()
        except sqlite3.Error as error:
            raise SpoolWriteError(str(error)) from error
        self._last = last
        self._count += len(records) - dropped
        return Appended(last - len(records) + 1, dropped)

    def oldest(self, most: int, most_bytes: int) -> list[Spooled]:
        """Return the oldest records: at most ``most``, about ``most_bytes``, and at least one of any."""
        while True:
            entries: list[Spooled] = []
            broken: list[int] = []
            total = 0
            rows = self._file.database.execute(_OLDEST, (self._acknowledged, most))
            for number, topic, key, ts_ms, packed in rows:
                try:
                    payload = None if packed is None else self._unpack.decompress(packed)
                except zstandard.ZstdError:  # a flipped bit: SQLite's own check does not cover values
                    broken.append(number)
                    continue
                record = ProducerRecord(topic=topic, key=key, value=payload, ts_ms=ts_ms)
                total += record_bytes(record)
                if entries and total > most_bytes:
                    break
                entries.append(Spooled(number, record))
            rows.close()
            for number in broken:
                gone = self._file.database.execute("DELETE FROM record WHERE id = ?", (number,)).rowcount
                self.unreadable += gone
                self._count -= gone
            if entries or not broken:
                return entries

    def acknowledge(self, through: int) -> None:
        """Delete the records with an id up to ``through``.

        Raises ``SpoolWriteError``; they are not given out again even so, unless the process ends before a
        later deletion succeeds.
        """
        try:
            self._count -= self._stored(self._acknowledged, through)
            self._acknowledged = max(self._acknowledged, through)
            with self._file.transaction() as database:
                database.execute("DELETE FROM record WHERE id <= ?", (through,))
            if not self._count:
                self._file.shrink()
            self.used_bytes = self._file.used_bytes()
        except sqlite3.Error as error:
            raise SpoolWriteError(str(error)) from error

    def renew(self) -> int:
        """Put the file aside, which turned out to be damaged, and begin anew; how many records that costs.

        Ids go on, so that what is being sent is not mistaken for what comes. Raises ``SpoolError``.
        """
        lost, last = self._count, self._last
        self._file.close()
        try:
            put_aside(self.folder / _FILE)
            self._file = self._open()
            self._acknowledged = self._last = last
            self._file.begin_after(last)
        except (sqlite3.Error, OSError) as error:
            raise SpoolError(f"{_unusable(self.folder)}: {error}") from error
        return lost

    def close(self) -> None:
        """Close the file and release the lock; what is stored stays."""
        self._file.close()
        os.close(self._lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _open(self) -> SpoolFile:
        try:
            self._file = SpoolFile(self.folder / _FILE)
            self._count = self._stored(0, _LAST_ID)
            self._last = self._file.last_id()
            self.used_bytes = self._file.used_bytes()
        except (sqlite3.Error, OSError) as error:
            raise SpoolError(f"{_unusable(self.folder)}: {error}") from error
        return self._file

    def _stored(self, after: int, through: int) -> int:
        return int(self._file.database.execute(_COUNT, (after, through)).fetchone()[0])


def record_bytes(record: ProducerRecord) -> int:
    """Return what a record weighs in memory and in a batch, about, bytes."""
    return len(record.value or b"") + len(record.key) + len(record.topic) + 64


def _unusable(folder: Path) -> str:
    return f"the spool {folder} cannot be written (give a folder that can be by DUTYCYCLE_SPOOL)"
