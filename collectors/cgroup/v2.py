"""Counters of cgroup v2: one folder holds the files of every controller that is switched on for it."""

from collections.abc import Iterator

from collectors.cgroup.files import FilePool, field_of
from collectors.cgroup.mounts import Hierarchy
from collectors.cgroup.usage import Source, Usage, working_set


class Cpu:
    """``cpu.stat``: time is always there, the limit's periods only with the cpu controller."""

    def __init__(self, folder: str, pool: FilePool) -> None:
        self._stat = pool.file(f"{folder}/cpu.stat")

    def read(self, usage: Usage, disks: frozenset[str] | None) -> bool:
        """Fill in CPU time and, where measured, periods; what v1 has said already stays."""
        text = self._stat.read()
        used = field_of(text, b"usage_usec") if text else None
        if text is None or used is None:
            return False
        if usage.cpu_ns is None:
            usage.cpu_ns = used * 1000
        if usage.periods is None:
            usage.periods, usage.throttled = field_of(text, b"nr_periods"), field_of(text, b"nr_throttled")
        return True

    def close(self) -> None:
        """Close the file."""
        self._stat.close()


class Memory:
    """``memory.current``, ``.stat`` and ``.max``."""

    def __init__(self, folder: str, pool: FilePool) -> None:
        self._used = pool.file(f"{folder}/memory.current")
        self._stat = pool.file(f"{folder}/memory.stat")
        self._limit = pool.file(f"{folder}/memory.max")

    def read(self, usage: Usage, disks: frozenset[str] | None) -> bool:
        """Fill in the working set and the limit ("max": none)."""
        used, stat = self._used.number(), self._stat.read()
        if used is None or stat is None:
            return False
        usage.mem_used = working_set(used, field_of(stat, b"inactive_file"))
        usage.mem_limit = self._limit.number()
        return True

    def close(self) -> None:
        """Close the files."""
        for file in (self._used, self._stat, self._limit):
            file.close()


class Io:
    """``io.stat``: bytes per device; a group that did no I/O has an empty one."""

    def __init__(self, folder: str, pool: FilePool) -> None:
        self._stat = pool.file(f"{folder}/io.stat")

    def read(self, usage: Usage, disks: frozenset[str] | None) -> bool:
        """Fill in bytes read and written."""
        if (text := self._stat.read()) is None:
            return False
        usage.io_read, usage.io_write = io_stat(text, disks)
        return True

    def close(self) -> None:
        """Close the file."""
        self._stat.close()


def io_stat(text: bytes, disks: frozenset[str] | None) -> tuple[int, int]:
    """Bytes read and written, from lines such as ``8:0 rbytes=4096 wbytes=0 rios=1 …``."""
    read = written = 0
    for line in text.decode("ascii").splitlines():
        device, _, rest = line.partition(" ")
        if disks is not None and device not in disks:
            continue
        fields = dict(field.split("=", 1) for field in rest.split() if "=" in field)
        read += int(fields.get("rbytes", 0))
        written += int(fields.get("wbytes", 0))
    return read, written


def sources(folder: str, hierarchy: Hierarchy, pool: FilePool, *, with_cpu: bool = True) -> Iterator[Source]:
    """The sources of one cgroup, in a hierarchy whose root has these controllers.

    ``with_cpu`` False: v1 measures all of the CPU already.
    """
    if with_cpu:
        yield Cpu(folder, pool)
    if "memory" in hierarchy.controllers:
        yield Memory(folder, pool)
    if "io" in hierarchy.controllers:
        yield Io(folder, pool)
