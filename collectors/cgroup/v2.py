"""Reads counters of cgroup v2: one folder holds the files of every controller that is switched on for it."""

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
from collectors.files import FilePool, field_of, number_in


def v2_controllers(
    folder: str, hierarchy: Hierarchy, pool: FilePool, *, with_cpu: bool = True
) -> Iterator[Controller]:
    """Yield the controllers of one cgroup, in a hierarchy whose root has these.

    ``with_cpu`` False: v1 measures all of the CPU already.
    """
    if with_cpu:
        yield Controller(_cpu, pool, folder, "cpu.stat")
    if "memory" in hierarchy.controllers:
        names = ("memory.current", "memory.stat")
        yield Controller(_memory, pool, folder, *names, rhythm=Rhythm.WITH_CPU_TIME)
        yield Controller(_limit, pool, folder, "memory.max", rhythm=Rhythm.HARDLY_EVER)
    if "io" in hierarchy.controllers:
        yield Controller(_io, pool, folder, "io.stat")


def _cpu(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    """Read ``cpu.stat``: microseconds, always there; the limit's periods only with the cpu controller.

    On a hybrid host v1 may have filled in a part already: that stays.
    """
    stat = texts[0]
    used = field_of(stat, b"usage_usec") if stat else None
    if stat is None or used is None:
        return False
    if usage.cpu_ns is None:
        usage.cpu_ns = used * 1000
    if usage.periods is None:
        read_periods(usage, stat)
    return True


def _memory(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    used, stat = texts
    return read_working_set(usage, number_in(used), stat, b"inactive_file")


def _limit(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    """Read bytes. ``memory.max`` says "max" for no limit."""
    usage.mem_limit = number_in(texts[0])
    return texts[0] is not None


def _io(usage: ContainerUsage, texts: Texts, disks: Disks) -> bool:
    """Read ``io.stat``: lines as ``8:0 rbytes=4096 wbytes=0 rios=1 …``; empty for a group without I/O.

    Linux 5.13 to 5.18 puts the name of a device that has none before the next one, on the same line.
    """
    if (text := texts[0]) is None:
        return False
    read = written = 0
    for line in text.decode("ascii", "replace").splitlines():
        words = line.split()
        fields = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        if disks is not None and names[-1:] and names[-1] not in disks:
            continue
        try:
            read += int(fields.get("rbytes", 0))
            written += int(fields.get("wbytes", 0))
        except ValueError:  # a sum without it would be another one
            return True
    usage.io_read, usage.io_write = read, written
    return True
