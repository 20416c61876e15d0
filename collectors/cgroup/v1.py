"""Counters of cgroup v1: each controller has files, and mostly a hierarchy, of its own."""

from collections.abc import Iterator

from collectors.cgroup.files import FilePool, field_of
from collectors.cgroup.mounts import Hierarchy
from collectors.cgroup.usage import Source, Usage, working_set

_NO_LIMIT = 2**60
"""v1 writes "no limit" as the largest number of whole pages, which differs between machines."""


class CpuTime:
    """``cpuacct.usage``: nanoseconds, the groups below included."""

    def __init__(self, folder: str, pool: FilePool) -> None:
        self._usage = pool.file(f"{folder}/cpuacct.usage")

    def read(self, usage: Usage, disks: frozenset[str] | None) -> bool:
        """Fill in ``cpu_ns``."""
        usage.cpu_ns = self._usage.number()
        return usage.cpu_ns is not None

    def close(self) -> None:
        """Close the file."""
        self._usage.close()


class Throttling:
    """``cpu.stat``: periods of the CPU limit."""

    def __init__(self, folder: str, pool: FilePool) -> None:
        self._stat = pool.file(f"{folder}/cpu.stat")

    def read(self, usage: Usage, disks: frozenset[str] | None) -> bool:
        """Fill in ``periods`` and ``throttled``."""
        if (text := self._stat.read()) is None:
            return False
        usage.periods, usage.throttled = field_of(text, b"nr_periods"), field_of(text, b"nr_throttled")
        return True

    def close(self) -> None:
        """Close the file."""
        self._stat.close()


class Memory:
    """``memory.usage_in_bytes``, ``.stat`` and ``.limit_in_bytes``."""

    def __init__(self, folder: str, pool: FilePool) -> None:
        self._used = pool.file(f"{folder}/memory.usage_in_bytes")
        self._stat = pool.file(f"{folder}/memory.stat")
        self._limit = pool.file(f"{folder}/memory.limit_in_bytes")

    def read(self, usage: Usage, disks: frozenset[str] | None) -> bool:
        """Fill in the working set and the limit."""
        used, stat = self._used.number(), self._stat.read()
        if used is None or stat is None:
            return False
        usage.mem_used = working_set(used, field_of(stat, b"total_inactive_file"))
        limit = self._limit.number()
        usage.mem_limit = limit if limit is not None and limit < _NO_LIMIT else None
        return True

    def close(self) -> None:
        """Close the files."""
        for file in (self._used, self._stat, self._limit):
            file.close()


class Blkio:
    """``blkio.throttle.io_service_bytes``, or bfq's: bytes per device and direction."""

    def __init__(self, folder: str, name: str, pool: FilePool) -> None:
        self._bytes = pool.file(f"{folder}/{name}")

    def read(self, usage: Usage, disks: frozenset[str] | None) -> bool:
        """Fill in bytes read and written."""
        if (text := self._bytes.read()) is None:
            return False
        usage.io_read, usage.io_write = io_service_bytes(text, disks)
        return True

    def close(self) -> None:
        """Close the file."""
        self._bytes.close()


def io_service_bytes(text: bytes, disks: frozenset[str] | None) -> tuple[int, int]:
    """Bytes read and written, from lines such as ``8:0 Read 4096``."""
    sums = {b"Read": 0, b"Write": 0}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in sums and (disks is None or fields[0].decode() in disks):
            sums[fields[1]] += int(fields[2])
    return sums[b"Read"], sums[b"Write"]


def sources(folder: str, hierarchy: Hierarchy, pool: FilePool) -> Iterator[Source]:
    """The sources of one cgroup in one hierarchy."""
    if "cpuacct" in hierarchy.controllers:
        yield CpuTime(folder, pool)
    if "cpu" in hierarchy.controllers:
        yield Throttling(folder, pool)
    if "memory" in hierarchy.controllers:
        yield Memory(folder, pool)
    if "blkio" in hierarchy.controllers:
        yield Blkio(folder, hierarchy.io_file, pool)
