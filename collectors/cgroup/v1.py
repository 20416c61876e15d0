"""Reads counters of cgroup v1: each controller has files, and mostly a hierarchy, of its own."""

from collections.abc import Iterator

from collectors.cgroup.mounts import Hierarchy
from collectors.cgroup.usage import (
    ContainerUsage,
    Controller,
    Disks,
    Rhythm,
    Texts,
    read_periods,
    read_working_set,
)
from collectors.files import FilePool, number_in

_NO_LIMIT = 2**60
"""v1 writes "no limit" as the largest number of whole pages, which differs between machines."""


def v1_controllers(folder: str, hierarchy: Hierarchy, pool: FilePool) -> Iterator[Controller]:
    """Yield the controllers of one cgroup in one hierarchy."""
    if "cpuacct" in hierarchy.controllers:
        yield Controller(_cpu_time, pool, folder, "cpuacct.usage")
    if "cpu" in hierarchy.controllers:
        yield Controller(_throttling, pool, folder, "cpu.stat", rhythm=Rhythm.WITH_CPU_TIME)
    if "memory" in hierarchy.controllers:
        names = ("memory.usage_in_bytes", "memory.stat")
        yield Controller(_memory, pool, folder, *names, rhythm=Rhythm.WITH_CPU_TIME)
        yield Controller(_limit, pool, folder, "memory.limit_in_bytes", rhythm=Rhythm.HARDLY_EVER)
    if "blkio" in hierarchy.controllers:
        yield Controller(_io, pool, folder, hierarchy.io_file)


def _cpu_time(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    """Read ``cpuacct.usage``: nanoseconds, the groups below included."""
    usage.cpu_ns = number_in(texts[0])
    return usage.cpu_ns is not None


def _throttling(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    if (stat := texts[0]) is None:
        return False
    read_periods(usage, stat)
    return True


def _memory(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    """Read bytes. ``total_…`` includes the groups below, as ``usage_in_bytes`` does."""
    used, stat = texts
    return read_working_set(usage, number_in(used), stat, b"total_inactive_file")


def _limit(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    most = number_in(texts[0])
    usage.mem_limit = most if most is not None and most < _NO_LIMIT else None
    return texts[0] is not None


def _io(usage: ContainerUsage, texts: Texts, disks: Disks) -> bool:
    """Read ``blkio.throttle.io_service_bytes``, or bfq's: lines such as ``8:0 Read 4096``, bytes."""
    if (text := texts[0]) is None:
        return False
    sums = {b"Read": 0, b"Write": 0}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) != 3 or fields[1] not in sums:
            continue
        if not fields[2].isdigit():  # a sum without it would be another one
            return True
        if disks is None or fields[0].decode("ascii", "replace") in disks:
            sums[fields[1]] += int(fields[2])
    usage.io_read, usage.io_write = sums[b"Read"], sums[b"Write"]
    return True
