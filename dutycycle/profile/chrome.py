"""Reads a trace of PyTorch's profiler, in Chrome's Trace Event Format, as a database with the tables of an
export.

It is read as a stream: a trace is often hundreds of megabytes of JSON, in no order of time. What Kineto calls
an activity has changed with its versions (``Kernel``, later ``kernel``); all of them are known. Times in
traces are microseconds, with three digits behind the point in newer ones, and are kept exactly.
"""

import re
import sqlite3
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import ijson

from dutycycle.contract.errors import DutycycleError
from dutycycle.profile.export import COPIES
from dutycycle.profile.lenient import LenientJson

_GZIP = b"\x1f\x8b"
_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": ("start", "end", "deviceId", "correlationId", "demangledName"),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start", "end", "deviceId", "correlationId", "bytes", "copyKind", "srcKind",
    ),
    "CUPTI_ACTIVITY_KIND_MEMSET": ("start", "end", "deviceId", "correlationId", "bytes"),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start", "end", "globalTid", "correlationId", "nameId"),
    "NVTX_EVENTS": ("start", "end", "eventType", "textId"),
}  # fmt: skip
_KERNELS, _COPIES, _SETS, _CALLS, _RANGES = _TABLES
_TABLE_OF = {
    "kernel": _KERNELS, "gpu_memcpy": _COPIES, "memcpy": _COPIES, "gpu_memset": _SETS, "memset": _SETS,
    "cuda_runtime": _CALLS, "cuda_driver": _CALLS, "hip_runtime": _CALLS, "runtime": _CALLS,
    "user_annotation": _RANGES, "cpu_op": _RANGES, "operator": _RANGES,
}  # fmt: skip
"""By the category of an event, in lower case."""
_MEMORY = {"pageable": 0, "pinned": 1, "device": 2}
_NUMBER = re.compile(r"\d{1,16}(\.\d{1,9})?", re.ASCII)
_COPY = re.compile(r"Memcpy (\w+)(?: \((\w+) ->)?")
_TRACK = "track"
"""The column of the process and thread, or GPU and stream, that an event is drawn in: only in the same one is
an equal event the same one again."""
_PUSH_POP = 59
_BATCH = 10_000
_HUGE = 2**62
"""What is larger does not fit into a column."""


@dataclass(slots=True)
class ChromeProfile:
    """Says what was read. ``notes``: what a reader has to know of it. ``whole``: all events are there."""

    product: str
    whole: bool = True
    notes: list[str] = field(default_factory=list)


def is_trace(path: Path) -> bool:
    """Tell whether it begins like JSON, or is packed. Raises ``DutycycleError``."""
    try:
        with path.open("rb") as file:
            is_packed = file.read(2) == _GZIP
            return is_packed or _head(file).startswith((b"{", b"["))
    except OSError as error:
        raise DutycycleError(f"{path}: {error.strerror}") from error


def convert(path: Path, database: Path, progress: Callable[[str], None]) -> ChromeProfile:
    """Write the trace's events to ``database``; of one that is cut off, those that are there.

    Raises ``DutycycleError`` for a file that is none.
    """
    writer = _Writer(database)
    made = ChromeProfile("a Chrome trace")
    read = 0
    with path.open("rb") as file:
        whole = max(path.stat().st_size, 1)
        try:
            field = "" if _head(file).startswith(b"[") else "traceEvents"
            events = iter(ijson.items(_text(file), f"{field}.item".lstrip(".")))
            for read, event in enumerate(events, 1):
                writer.add(event)
                if read % _BATCH == 0:
                    progress(f"the trace, {100 * file.tell() / whole:.0f} %")
        except (ijson.JSONError, zlib.error, UnicodeDecodeError) as error:
            if not read:
                reason = " ".join(str(error).split())[:120]
                raise DutycycleError(
                    f"{path}: is no whole trace in Chrome's Trace Event Format (JSON): {reason}"
                ) from error
            made.whole = _is_list_whole(_text(file), field)
            made.notes.append(
                "what stands in the file behind its list of events cannot be read, and is left out"
                if made.whole
                else f"the file is cut off or damaged after {read} events: these alone are shown"
            )
        except (sqlite3.Error, OSError) as error:
            raise DutycycleError(
                f"{path}: its events cannot be kept in {database.parent}: {error}"
            ) from error
    writer.close()
    if not read:
        raise DutycycleError(f"{path}: has no events: expected a trace in Chrome's Trace Event Format")
    made.notes += writer.notes()
    if writer.is_of_pytorch:
        made.product = "PyTorch profiler"
    elif made.whole:  # of what its GPUs did nothing is known: that is not to say that there was none
        raise DutycycleError(
            f"{path}: none of its {read} events is of a category that PyTorch's profiler writes (kernel, "
            "cuda_runtime, cpu_op, …): traces of JAX and of other programs are not read"
        )
    return made


def _is_list_whole(text: LenientJson, field: str) -> bool:
    """Tell whether the list of events is whole, of a file that cannot be read to its end. ``field``: where it
    stands; "" where it is the file itself."""
    try:
        return any(event == (field, "end_array", None) for event in ijson.parse(text))
    except (ijson.JSONError, zlib.error, UnicodeDecodeError):
        return False


def _head(file: BinaryIO) -> bytes:
    return _text(file).read(64).lstrip()


def _text(file: BinaryIO) -> LenientJson:
    file.seek(0)
    packed = file.read(2) == _GZIP
    file.seek(0)
    return LenientJson(_Unpacked(file) if packed else file)


class _Unpacked:
    """Unpacks a file, also of several parts that were packed one by one. One that is cut off gives what
    could be unpacked, to the last byte; ``gzip`` would not give it out."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._unpack = zlib.decompressobj(wbits=31)

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, and none only at the end."""
        unpacked = b""
        while size and not unpacked:
            packed = self._unpack.unconsumed_tail or self._unpack.unused_data or self._file.read(size)
            if self._unpack.eof:
                if not packed.startswith(_GZIP):
                    break
                self._unpack = zlib.decompressobj(wbits=31)
            if not packed:
                break
            unpacked = self._unpack.decompress(packed, size)
        return unpacked


class _Writer:
    """Puts events into tables, ten thousand at a time."""

    def __init__(self, database: Path) -> None:
        self.skipped = self.unended = self.doubled = 0
        self.is_of_pytorch = False
        self._names: dict[str, int] = {}
        self._begun: dict[str, list[dict[str, Any]]] = {}
        """By track the events that have begun and not ended, the last one innermost."""
        self._waiting: dict[str, list[tuple[Any, ...]]] = {table: [] for table in _TABLES}
        self._db = sqlite3.connect(database)
        self._db.executescript("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
        self._db.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        for table, columns in _TABLES.items():
            self._db.execute(f"CREATE TABLE {table} ({', '.join([*columns, _TRACK])})")

    def add(self, event: Any) -> None:
        """Add one event, or its begin or its end; of a kind that no table has, it is left out, and with a
        time that cannot be read, counted."""
        if not isinstance(event, dict):
            return
        track, phase = f"{event.get('pid')} {event.get('tid')}", event.get("ph")
        if phase == "B":
            self._begun.setdefault(track, []).append(event)
            return
        ended = _ns(event.get("ts"))
        if phase == "E" and self._begun.get(track):
            event = self._begun[track].pop()
        elif phase != "X":
            return
        table = _TABLE_OF.get(str(event.get("cat")).lower())
        if table is None:
            return
        self.is_of_pytorch = True
        start, lasted, args = _ns(event.get("ts")), _ns(event.get("dur")), event.get("args")
        if phase == "E" and start is not None and ended is not None and start <= ended:
            lasted = ended - start
        if start is None or lasted is None:
            self.skipped += 1
            return
        name = str(event.get("name", ""))
        row = self._row(table, name, args if isinstance(args, dict) else {}, event)
        waiting = self._waiting[table]
        waiting.append((start, start + lasted, *row, track))
        if len(waiting) >= _BATCH:
            self._write(table)

    def close(self) -> None:
        """Write what is left, and of equal events one; count what has not ended."""
        for event in chain.from_iterable(self._begun.values()):
            is_known = str(event.get("cat")).lower() in _TABLE_OF
            self.unended += is_known
            self.is_of_pytorch = self.is_of_pytorch or is_known
        for table, columns in _TABLES.items():
            self._write(table)
            same = ", ".join([*columns, _TRACK])
            self.doubled += self._db.execute(
                f"DELETE FROM {table} WHERE rowid NOT IN (SELECT min(rowid) FROM {table} GROUP BY {same})"
            ).rowcount
        self._db.executemany(
            "INSERT INTO StringIds VALUES (?, ?)", ((id_, name) for name, id_ in self._names.items())
        )
        self._db.commit()
        self._db.close()

    def notes(self) -> list[str]:
        """Say which events are not counted, and why."""
        counts = {
            "events have no time, and are left out": self.skipped,
            "events have a begin and no end (ph: B), and are left out": self.unended,
            "events stand in it again, and count once": self.doubled,
        }
        return [f"{count} {reason}" for reason, count in counts.items() if count]

    def _row(self, table: str, name: str, args: dict[str, Any], event: dict[str, Any]) -> tuple[Any, ...]:
        """Return the columns behind ``start`` and ``end``."""
        if table == _RANGES:
            return _PUSH_POP, self._id(name)
        correlation = _whole(args.get("correlation"))
        if table == _CALLS:
            thread = (_whole(event.get("tid")) or 0) & 0xFFFFFF  # above it an export has the process
            return thread, correlation, self._id(name)
        of_gpu = _whole(args.get("device")) or 0, correlation
        if table == _KERNELS:
            return (*of_gpu, self._id(name))
        if table == _SETS:
            return (*of_gpu, _whole(args.get("bytes")))
        match = _COPY.match(name)
        kind, source = match.groups() if match else ("", None)
        copy = COPIES.index(kind) if kind in COPIES else 0
        return (*of_gpu, _whole(args.get("bytes")), copy, _MEMORY.get((source or "").lower()))

    def _id(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names) + 1)

    def _write(self, table: str) -> None:
        marks = ", ".join("?" for _ in [*_TABLES[table], _TRACK])
        self._db.executemany(f"INSERT INTO {table} VALUES ({marks})", self._waiting[table])
        self._waiting[table].clear()


def _ns(micros: Any) -> int | None:
    """Return whole nanoseconds; None for what is no time. Some programs write numbers as text."""
    if isinstance(micros, str) and _NUMBER.fullmatch(micros):
        micros = Decimal(micros)
    if isinstance(micros, bool) or not isinstance(micros, int | Decimal) or not 0 <= micros < 2**52:
        return None
    return int(micros * 1000)


def _whole(value: Any) -> int | None:
    number: Any = Decimal(value) if isinstance(value, str) and value.isdecimal() else value
    return int(number) if isinstance(number, (int, Decimal)) and -_HUGE < number < _HUGE else None
