"""Reads an SQLite export of Nsight Systems, of any version: its tables as three views of one form.

The schema is that of "SQLite Export Schema Reference" in NVIDIA's Nsight Systems documentation. Versions
differ in which tables and columns there are, and a table may be missing because nothing of its kind was
traced. So every column that is not in all versions is looked for first. Times are nanoseconds.
"""

import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from dutycycle.contract.errors import DutycycleError

KERNEL, COPY, SET = 0, 1, 2
"""What an activity of a GPU is."""
LAUNCHES, WAITS, BLOCKS = 1, 2, 4
"""Bits of what a call does: it puts work on a GPU's queue; it returns when a GPU has finished; it may last as
long as the work that it puts there."""
HOST_TO_DEVICE, DEVICE_TO_HOST, PEER = (1, 11), (2, 12), 10
"""``copyKind``: of unified memory, too."""
PAGEABLE = 0
_RANGES = (59, 60, 70, 71)
_DOMAIN = 75
_EXPECTED = {
    "CUPTI_ACTIVITY_KIND_KERNEL": "kernels",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "memory copies",
    "CUPTI_ACTIVITY_KIND_MEMSET": "memory sets",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "CUDA API calls",
    "NVTX_EVENTS": "NVTX ranges",
    "StringIds": "names",
}
_LOADING = re.compile(r"data.?load|load.?(data|batch)|(next|fetch|get).?batch|prefetch", re.IGNORECASE)
_PACKED = (b"PK\3\4", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"7z\xbc\xaf\x27\x1c")
"""How files begin that are packed by zip, bzip2, xz, zstd and 7z."""
_COMMUNICATION = re.compile(r"nccl|rccl|all.?reduce|all.?gather|reduce.?scatter|nvshmem", re.IGNORECASE)
_END_NS = 2**62
_STEPS = 2_000_000
"""Of SQLite's virtual machine between two calls of ``progress``: a few times a second."""


class Export:
    """Queries an open export. ``missing``: tables without rows, and of what. ``untimed``: tables, and how
    many of their rows have no time or no GPU: these are left out. Its errors are ``DutycycleError``."""

    def __init__(self, path: Path, progress: Callable[[str], None]) -> None:
        """Open it, to read alone. ``progress`` is told now and then what is done."""
        self.path = path
        self.doing = "opening"
        try:
            _check(path)
            self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
            self._db.set_progress_handler(lambda: progress(self.doing), _STEPS)
            tables = self._db.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            of_table = "SELECT name FROM pragma_table_info(?)"
            self._columns: dict[str, set[str]] = {
                table: {name for (name,) in self._db.execute(of_table, (table,))} for (table,) in tables
            }
        except OSError as error:
            raise DutycycleError(f"{path}: {error.strerror}") from error
        except sqlite3.DatabaseError as error:
            raise self._unreadable(error) from error
        if not _EXPECTED.keys() & self._columns.keys():
            raise DutycycleError(f"{path}: is a database, but not an export of Nsight Systems")
        self.missing = [(table, what) for table, what in _EXPECTED.items() if not self._has(table)]
        self.untimed: dict[str, int] = {}
        # Programs cut names at any byte, and SQLite keeps what is no UTF-8 but gives it out as bytes alone:
        # to a function of ours too. One such name would make the whole export unreadable.
        self._db.text_factory = _text
        for of_name in (does, loads, communicates):
            ask = partial(_ask_of_text, of_name)
            self._db.create_function(of_name.__name__, 1, ask, deterministic=True)
        if "StringIds" not in self._columns:
            self._db.execute("CREATE TEMP TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
        activities = [
            self._activity(table, what)
            for what, table in enumerate(list(_EXPECTED)[:3]) if self._has(table)
        ]  # fmt: skip
        if self._has("CUPTI_ACTIVITY_KIND_GRAPH_TRACE"):  # where a CUDA graph was traced as one
            activities.append(self._activity("CUPTI_ACTIVITY_KIND_GRAPH_TRACE", KERNEL))
        self._view("activities", _ACTIVITY, activities)
        calls, table = [], "CUPTI_ACTIVITY_KIND_RUNTIME"
        if self._has(table):
            thread = self._column(table, "globalTid", "0")
            calls.append(
                f"SELECT start, end, {thread}, ({thread} >> 24) & 16777215, "
                f"{self._column(table, 'correlationId')}, nameId FROM {table} WHERE {self._timed(table)}"
            )
        self._view("calls", _CALL, calls)
        self._view("ranges", _RANGE, [self._ranges()] if self._has("NVTX_EVENTS") else [])

    def close(self) -> None:
        """Close it."""
        self._db.close()

    def rows(self, doing: str, sql: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a query over ``activities``, ``calls``, ``ranges`` and ``StringIds``, one by
        one."""
        self.doing = doing
        try:
            yield from self._db.execute(sql)
        except sqlite3.DatabaseError as error:
            raise self._unreadable(error) from error

    def product(self) -> str:
        """Return what wrote it: ``NVIDIA Nsight Systems 2024.5.1.113``."""
        for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):  # EXPORT_META_DATA until 2022
            if self._has(table):
                product = dict(self.rows("opening", f"SELECT name, value FROM {table}"))
                name = product.get("EXPORT_PRODUCT_NAME") or "Nsight Systems"
                return f"{name} {product.get('EXPORT_PRODUCT_VERSION', '')}".strip()
        return "Nsight Systems"

    def devices(self) -> dict[tuple[int, int], int]:
        """Return the GPU of (process, its device): ``CUDA_VISIBLE_DEVICES`` may number them anew."""
        if not {"gpuId", "cudaId", "pid"} <= self._columns.get("TARGET_INFO_CUDA_DEVICE", set()):
            return {}
        sql = "SELECT pid, cudaId, gpuId FROM TARGET_INFO_CUDA_DEVICE"
        rows = self.rows("opening", f"{sql} WHERE typeof(pid) = 'integer' AND typeof(gpuId) = 'integer'")
        return {(pid & 0xFFFFFF, cuda): gpu for pid, cuda, gpu in rows}

    def models(self) -> dict[int, str]:
        """Return names of GPUs."""
        if not {"id", "name"} <= self._columns.get("TARGET_INFO_GPU", set()):
            return {}
        return {
            id_: name for id_, name in self.rows("opening", "SELECT id, name FROM TARGET_INFO_GPU") if name
        }

    def name_of(self, id_: int) -> str:
        """Return a name of ``StringIds``; a CUDA graph that was traced as one has none."""
        row = self._db.execute("SELECT value FROM StringIds WHERE id = ?", (id_,)).fetchone()
        return str(row[0]) if row else "CUDA graph"

    def label_of_copy(self) -> dict[int, str]:
        """Return what ``nsys stats`` of that version calls a copy: ``HtoD``, later ``Host-to-Device``."""
        short = dict(enumerate(COPIES)) | {11: "HtoD (unified)", 12: "DtoH (unified)", 13: "DtoD (unified)"}
        if not {"id", "label"} <= self._columns.get("ENUM_CUDA_MEMCPY_OPER", set()):
            return short
        return short | dict(self.rows("opening", "SELECT id, label FROM ENUM_CUDA_MEMCPY_OPER"))

    def _has(self, table: str) -> bool:
        return table in self._columns and any(self.rows("opening", f'SELECT 1 FROM "{table}" LIMIT 1'))

    def _column(self, table: str, name: str, default: str = "NULL") -> str:
        return name if name in self._columns[table] else default

    def _view(self, name: str, columns: tuple[str, ...], parts: list[str]) -> None:
        none = f"SELECT {', '.join('0' for _ in columns)} WHERE 0"
        self._db.execute(
            f"CREATE TEMP VIEW {name} ({', '.join(columns)}) AS {' UNION ALL '.join(parts) or none}"
        )

    def _activity(self, table: str, what: int) -> str:
        name = next(
            (column for column in ("demangledName", "shortName") if column in self._columns[table]), "NULL"
        )
        process = f"({self._column(table, 'globalPid', '0')} >> 24) & 16777215"
        others = ", ".join(
            self._column(table, column) for column in ("correlationId", "bytes", "copyKind", "srcKind")
        )
        timed = self._timed(table, "deviceId")
        return f"SELECT {what}, start, end, deviceId, {process}, {name}, {others} FROM {table} WHERE {timed}"

    def _timed(self, table: str, *needed: str) -> str:
        """Return what holds for rows with a time and what is ``needed``; count the others."""
        timed = _has_numbers("start", "end", *needed)
        ((others,),) = self.rows("opening", f"SELECT COUNT(*) FROM {table} WHERE ({timed}) IS NOT TRUE")
        if others:
            self.untimed[table] = others
        return timed

    def _ranges(self) -> str:
        text, id_ = (self._column("NVTX_EVENTS", column) for column in ("text", "textId"))
        of_text = f"COALESCE({text}, (SELECT value FROM StringIds WHERE id = {id_}), '')"
        name = of_text
        if "domainId" in self._columns["NVTX_EVENTS"]:
            self._db.execute("CREATE TEMP TABLE domains (id INTEGER PRIMARY KEY, prefix TEXT)")
            self._db.execute(
                f"INSERT OR REPLACE INTO domains SELECT domainId, {of_text} || ':' FROM NVTX_EVENTS "
                f"WHERE eventType = {_DOMAIN} AND domainId IS NOT NULL"
            )
            name = f"COALESCE((SELECT prefix FROM domains WHERE domains.id = domainId), '') || {of_text}"
        return (
            "SELECT start, end, CASE WHEN eventType IN (59, 70) THEN 'PushPop' ELSE 'StartEnd' END, "
            f"{name} FROM NVTX_EVENTS WHERE eventType IN {_RANGES} AND {_has_numbers('start', 'end')}"
        )

    def _unreadable(self, error: sqlite3.DatabaseError) -> DutycycleError:
        return DutycycleError(f"{self.path}: cannot be read: {error}; is it a whole export?")


_ACTIVITY = (
    "what", "start", "end", "device", "process", "name", "correlation", "bytes", "copy", "source",
)  # fmt: skip
_CALL = ("start", "end", "thread", "process", "correlation", "name")
_RANGE = ("start", "end", "style", "name")
COPIES = (
    "Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP",
)  # fmt: skip


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _ask_of_text(of_name: Callable[[str | None], int], raw: bytes | None) -> int:
    return of_name(None if raw is None else _text(raw))


def does(name: str | None) -> int:
    """Return the bits of a CUDA or HIP call."""
    called = (name or "").lower()
    launches = LAUNCHES if re.search(r"launch|memcpy|memset", called) else 0
    waits = "synchronize" in called or ("memcpy" in called and "async" not in called)
    return launches | (WAITS if waits else 0) | (BLOCKS if "memcpy" in called else 0)


def loads(name: str | None) -> bool:
    """Tell whether a range is one in which data is loaded, by the names that frameworks give it."""
    return _LOADING.search(name or "") is not None


def communicates(name: str | None) -> bool:
    """Tell whether a kernel moves data between GPUs."""
    return _COMMUNICATION.search(name or "") is not None


def _check(path: Path) -> None:
    """Check that it is a database, and a whole one. Raises ``DutycycleError``."""
    with path.open("rb") as file:
        head = file.read(100)
    if not head.startswith(b"SQLite format 3\0"):
        if path.suffix in (".nsys-rep", ".qdrep"):
            raise DutycycleError(
                f"{path}: make its SQLite export first: nsys export --type sqlite {path.name}"
            )
        if head.startswith(_PACKED):
            raise DutycycleError(f"{path}: is packed, and not by gzip: unpack it, and give what was in it")
        raise DutycycleError(
            f"{path}: is neither an SQLite export of Nsight Systems (nsys export --type sqlite) nor a trace "
            "of PyTorch's profiler"
        )
    page = int.from_bytes(head[16:18]) if head[16:18] != b"\0\1" else 65536
    whole, there = page * int.from_bytes(head[28:32]), path.stat().st_size
    if there < whole:
        raise DutycycleError(
            f"{path}: is cut off: {there} of {whole} bytes are there; copy or export it again"
        )


def _has_numbers(*columns: str) -> str:
    """Return what holds for rows whose ``columns`` are numbers, and start and end a time."""
    numbers = [f"typeof({column}) IN ('integer', 'real')" for column in columns]
    return " AND ".join([*numbers, "start BETWEEN 0 AND end", f"end < {_END_NS}"])
