"""Programs as a profiler sees them, written as an export of Nsight Systems or as a trace of PyTorch.

A program is played: its host has a clock, its GPU a queue. The tables are those of NVIDIA's "SQLite Export
Schema Reference", in the forms of 2022 (schema 2.9) and of 2024 (3.13); the events are those that Kineto
writes, in the forms of 2021 and of today. All times are nanoseconds.
"""

import gzip
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

US, MS = 1_000, 1_000_000
PROCESS, THREAD = 4711, 4712
_LAUNCH = 5 * US
"""What a call takes on the host; the GPU begins at its end."""
GEMM = "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_bf16_128x64_32x6_tn_align8>(Params)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)"
ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
COPIES = {"HtoD": 1, "DtoH": 2, "DtoD": 8}
KINDS = {"Pageable": 0, "Pinned": 1, "Device": 2}


@dataclass
class Program:
    """What was traced, as tuples in the order of time."""

    now: int = 1_000 * MS
    free: dict[int, int] = field(default_factory=dict)
    kernels: list[tuple[int, int, int, int, str]] = field(default_factory=list)
    copies: list[tuple[int, int, int, int, int, str, str]] = field(default_factory=list)
    calls: list[tuple[int, int, int, str]] = field(default_factory=list)
    ranges: list[tuple[int, int, str]] = field(default_factory=list)

    def launch(self, name: str, lasts: int, device: int = 0) -> None:
        """Put a kernel on the GPU's queue."""
        start, correlation = self._queued("cudaLaunchKernel_v7000", device)
        self.kernels.append((start, start + lasts, device, correlation, name))
        self.free[device] = start + lasts

    def copy(self, kind: str, size: int, lasts: int, source: str = "Pinned", device: int = 0) -> None:
        """Put a copy on the GPU's queue."""
        start, correlation = self._queued("cudaMemcpyAsync_v3020", device)
        self.copies.append((start, start + lasts, device, correlation, size, kind, source))
        self.free[device] = start + lasts

    def synchronize(self, device: int = 0) -> None:
        """Wait until the GPU has done all."""
        begin = self.now
        self.now = max(begin, self.free.get(device, 0)) + 2 * US
        self.calls.append((begin, self.now, self._next(), "cudaStreamSynchronize_v3020"))

    def works(self, lasts: int, name: str | None = None) -> None:
        """The host does something else, in a range of that name."""
        if name is not None:
            self.ranges.append((self.now, self.now + lasts, name))
        self.now += lasts

    def _queued(self, call: str, device: int) -> tuple[int, int]:
        begin, correlation = self.now, self._next()
        self.now += _LAUNCH
        self.calls.append((begin, self.now, correlation, call))
        return max(self.now, self.free.get(device, 0)), correlation

    def _next(self) -> int:
        return len(self.calls) + 1


def waits_for_data(steps: int = 10) -> Program:
    """Six milliseconds of loading, then nine of work, of which one copies a batch."""
    program = Program()
    for _ in range(steps):
        program.works(6 * MS, LOADER)
        program.copy("HtoD", 19 * 10**6, MS, "Pageable")
        for _ in range(4):
            program.launch(GEMM, 2 * MS)
        program.synchronize()
    return program


def launches_slowly(steps: int = 500) -> Program:
    """Kernels of 4 µs, each of which takes the host 16 µs."""
    program = Program()
    for _ in range(steps):
        program.works(11 * US)
        program.launch(ADD, 4 * US)
    return program


def asks_for_results(steps: int = 200) -> Program:
    """After each short kernel its result is read, and the host thinks about it."""
    program = Program()
    for _ in range(steps):
        program.launch(GEMM, 60 * US)
        program.copy("DtoH", 4, 2 * US, "Device")
        program.synchronize()
        program.works(40 * US)
    return program


def communicates(steps: int = 20) -> Program:
    """Work, then an all-reduce that nothing overlaps."""
    program = Program()
    for _ in range(steps):
        program.launch(GEMM, 2 * MS)
        program.launch(ALL_REDUCE, 2 * MS)
    return program


def computes(steps: int = 50, name: str = GEMM) -> Program:
    """The queue is never empty."""
    program = Program()
    for _ in range(steps):
        program.launch(name, 2 * MS)
    return program


def unbalanced(steps: int = 20) -> Program:
    """Two GPUs: the second has half of the work."""
    program = Program()
    for _ in range(steps):
        program.launch(GEMM, 2 * MS, device=0)
        program.launch(GEMM, MS, device=1)
        program.free[1] = program.free[0]
    return program


_MODERN = {
    "StringIds": "id INTEGER PRIMARY KEY, value TEXT NOT NULL",
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, "
        "contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, "
        "correlationId INTEGER, globalPid INTEGER, "
        "demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL, streamId INTEGER NOT NULL, "
        "correlationId INTEGER, globalPid INTEGER, bytes INTEGER NOT NULL, copyKind INTEGER NOT NULL, "
        "srcKind INTEGER, dstKind INTEGER"
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": (
        "start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL, globalTid INTEGER, "
        "correlationId INTEGER, nameId INTEGER NOT NULL, returnValue INTEGER NOT NULL, callchainId INTEGER"
    ),
    "NVTX_EVENTS": (
        "start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, text TEXT, globalTid INTEGER, "
        "textId INTEGER, domainId INTEGER"
    ),
    "META_DATA_EXPORT": "name TEXT NOT NULL, value TEXT",
    "TARGET_INFO_GPU": "vmId INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT",
    "ENUM_CUDA_MEMCPY_OPER": "id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT",
}
_OLD_NAMES = {"META_DATA_EXPORT": "EXPORT_META_DATA"}
_NOT_IN_2022 = {"ENUM_CUDA_MEMCPY_OPER", "TARGET_INFO_GPU"}


def write_export(program: Program, path: Path, *, year: int = 2024, without: tuple[str, ...] = ()) -> Path:
    """An export as of that year; tables that are empty are left out, as by ``nsys export --lazy=true``."""
    names: dict[str, int] = {}

    def id_of(text: str) -> int:
        return names.setdefault(text, len(names) + 1)

    pid = PROCESS << 24
    rows: dict[str, list[dict[str, Any]]] = {
        "CUPTI_ACTIVITY_KIND_KERNEL": [
            {"start": start, "end": end, "deviceId": device, "contextId": 1, "streamId": 7,
             "correlationId": correlation, "globalPid": pid, "demangledName": id_of(name),
             "shortName": id_of(name.partition("<")[0])}
            for start, end, device, correlation, name in program.kernels
        ],
        "CUPTI_ACTIVITY_KIND_MEMCPY": [
            {"start": start, "end": end, "deviceId": device, "streamId": 7, "correlationId": correlation,
             "globalPid": pid, "bytes": size, "copyKind": COPIES[kind], "srcKind": KINDS[source]}
            for start, end, device, correlation, size, kind, source in program.copies
        ],
        "CUPTI_ACTIVITY_KIND_RUNTIME": [
            {"start": start, "end": end, "eventClass": 0, "globalTid": pid | THREAD,
             "correlationId": correlation, "nameId": id_of(name), "returnValue": 0}
            for start, end, correlation, name in program.calls
        ],
        "NVTX_EVENTS": [
            {"start": start, "end": end, "eventType": 59, "textId": id_of(text), "globalTid": pid | THREAD}
            for start, end, text in program.ranges
        ],
        "META_DATA_EXPORT": [
            {"name": "EXPORT_PRODUCT_NAME", "value": "NVIDIA Nsight Systems"},
            {"name": "EXPORT_PRODUCT_VERSION", "value": f"{year}.2.1.31"},
        ],
        "TARGET_INFO_GPU": [{"vmId": 0, "id": 0, "name": "NVIDIA H200"}],
        "ENUM_CUDA_MEMCPY_OPER": [
            {"id": 1, "label": "Host-to-Device"}, {"id": 2, "label": "Device-to-Host"}
        ],
    }  # fmt: skip
    rows["StringIds"] = [{"id": id_, "value": text} for text, id_ in names.items()]
    old = year <= 2022
    with sqlite3.connect(path) as db:
        for table, found in rows.items():
            if found and table not in without and not (old and table in _NOT_IN_2022):
                _write(db, _OLD_NAMES.get(table, table) if old else table, _MODERN[table], found)
    db.close()
    return path


def _write(db: sqlite3.Connection, table: str, columns: str, rows: list[dict[str, Any]]) -> None:
    db.execute(f"CREATE TABLE {table} ({columns})")
    marks = ", ".join(f":{name}" for name in rows[0])
    db.executemany(f"INSERT INTO {table} ({', '.join(rows[0])}) VALUES ({marks})", rows)  # noqa: S608


def events(program: Program, *, year: int = 2024) -> list[dict[str, Any]]:
    """The events of a trace, in the order in which Kineto writes them: not that of time."""
    old = year <= 2021
    named = {
        "kernel": "Kernel", "gpu_memcpy": "Memcpy", "cuda_runtime": "Runtime", "user_annotation": "Operator",
    } if old else {}  # fmt: skip

    def event(cat: str, name: str, start: int, end: int, **args: Any) -> dict[str, Any]:
        times = {"ts": start / 1000, "dur": (end - start) / 1000}
        return {"ph": "X", "cat": named.get(cat, cat), "name": name, "pid": PROCESS, "tid": THREAD,
                **times, "args": args}  # fmt: skip

    return [
        {"ph": "M", "name": "process_name", "pid": PROCESS, "tid": 0, "ts": 0, "args": {"name": "python"}},
        *(event("user_annotation", text, start, end) for start, end, text in program.ranges),
        *(
            event("kernel", name, start, end, device=device, stream=7, correlation=correlation)
            for start, end, device, correlation, name in program.kernels
        ),
        *(
            event("gpu_memcpy", f"Memcpy {kind} ({source} -> Device)", start, end, device=device,
                  correlation=correlation, bytes=size)
            for start, end, device, correlation, size, kind, source in program.copies
        ),
        *(
            event("cuda_runtime", name.partition("_v")[0], start, end, correlation=correlation)
            for start, end, correlation, name in program.calls
        ),
        {"ph": "i", "s": "g", "name": "Record Window End", "ts": program.now / 1000, "pid": "", "tid": ""},
    ]  # fmt: skip


def write_trace(program: Program, path: Path, *, year: int = 2024) -> Path:
    """A trace as ``torch.profiler`` exports it, packed if it is named ``.gz``."""
    device = {"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150_000_000_000}
    text = orjson.dumps(
        {"schemaVersion": 1, "deviceProperties": [device], "traceEvents": events(program, year=year)}
    )
    path.write_bytes(gzip.compress(text, 6) if path.suffix == ".gz" else text)
    return path
