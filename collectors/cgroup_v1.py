"""Counters of cgroup v1: each controller has files, and mostly a hierarchy, of its own."""

from collections.abc import Callable, Iterator

from collectors.cgroup_file import FilePool, field_of
from collectors.cgroup_usage import Source, Usage, working_set

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
    """``blkio.throttle.io_service_bytes``: bytes per device and direction."""

    def __init__(self, folder: str, pool: FilePool) -> None:
        name = f"{folder}/blkio.throttle.io_service_bytes"
        self._files = (pool.file(f"{name}_recursive"), pool.file(name))  # the first is newer than v1 itself

    def read(self, usage: Usage, disks: frozenset[str] | None) -> bool:
        """Fill in bytes read and written."""
        text = next((text for file in self._files if (text := file.read()) is not None), None)
        if text is None:
            return False
        usage.io_read, usage.io_write = io_service_bytes(text, disks)
        return True

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


def io_service_bytes(text: bytes, disks: frozenset[str] | None) -> tuple[int, int]:
    """Bytes read and written, from lines such as ``8:0 Read 4096``."""
    sums = {b"Read": 0, b"Write": 0}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in sums and (disks is None or fields[0].decode() in disks):
            sums[fields[1]] += int(fields[2])
    return sums[b"Read"], sums[b"Write"]


_KINDS: dict[str, Callable[[str, FilePool], Source]] = {
    "cpuacct": CpuTime,
    "cpu": Throttling,
    "memory": Memory,
    "blkio": Blkio,
}


def sources(folder: str, controllers: frozenset[str], pool: FilePool) -> Iterator[Source]:
    """The sources of one cgroup in a hierarchy of these controllers."""
    for controller, kind in _KINDS.items():
        if controller in controllers:
            yield kind(folder, pool)
