"""Reads what a container has used so far, from the kernel's files of one cgroup.

In cgroup v1 each controller has files, and mostly a hierarchy, of its own; in v2 one folder holds the files
of every controller that is switched on for it.
"""

from collections.abc import Callable, Iterator
from enum import Enum, auto
from functools import partial

from msgspec import Struct

from collectors.cgroup.mounts import Hierarchy
from collectors.files import FilePool, field_of, number_in

_NO_LIMIT = 2**60
"""v1 writes "no limit" as the largest number of whole pages, which differs between machines; v2 "max"."""


class ContainerUsage(Struct):
    """Holds counters since the cgroup was made, and memory now; None: the host does not measure it there.

    ``cpu_ns``: CPU time. ``periods``, ``throttled``: enforcement periods of the CPU limit, and those in
    which it was hit. ``mem_used``: working set, bytes. ``mem_limit``: bytes, None for no limit.
    ``io_read``, ``io_write``: bytes.
    """

    cpu_ns: int | None = None
    periods: int | None = None
    throttled: int | None = None
    mem_used: int | None = None
    mem_limit: int | None = None
    io_read: int | None = None
    io_write: int | None = None


class Rhythm(Enum):
    """Says when the files of a controller may say something else than before."""

    ANY_TICK = auto()
    WITH_CPU_TIME = auto()
    """Says: when the group has used the CPU."""
    HARDLY_EVER = auto()
    """Says: when somebody sets a limit."""


Disks = frozenset[str] | None
"""The devices (``major:minor``) whose I/O counts; None for all."""
Texts = list[bytes | None]
"""Holds what the files of a controller say; None: not there."""
_Reader = Callable[[ContainerUsage, Texts, Disks], bool]
"""Takes what the files of one controller say into ``ContainerUsage``; False: they are not there."""


class Controller:
    """Names the ``files`` of one controller in one cgroup, and takes in what they say."""

    def __init__(
        self, take: _Reader, pool: FilePool, folder: str, *names: str, rhythm: Rhythm = Rhythm.ANY_TICK
    ) -> None:
        self.rhythm = rhythm
        self.take = take
        self.files = [pool.file(f"{folder}/{name}") for name in names]

    def close(self) -> None:
        """Close the files."""
        for file in self.files:
            file.close()


def v1_controllers(folder: str, hierarchy: Hierarchy, pool: FilePool) -> Iterator[Controller]:
    """Yield the controllers of one cgroup in one hierarchy."""
    if "cpuacct" in hierarchy.controllers:
        yield Controller(_read_cpu_time, pool, folder, "cpuacct.usage")
    if "cpu" in hierarchy.controllers:
        yield Controller(_read_periods, pool, folder, "cpu.stat", rhythm=Rhythm.WITH_CPU_TIME)
    if "memory" in hierarchy.controllers:
        # ``total_…`` includes the groups below, as ``usage_in_bytes`` does.
        read = partial(_read_working_set, b"total_inactive_file")
        names = ("memory.usage_in_bytes", "memory.stat")
        yield Controller(read, pool, folder, *names, rhythm=Rhythm.WITH_CPU_TIME)
        yield Controller(_read_limit, pool, folder, "memory.limit_in_bytes", rhythm=Rhythm.HARDLY_EVER)
    if "blkio" in hierarchy.controllers:
        yield Controller(_read_v1_io, pool, folder, hierarchy.io_file)


def v2_controllers(
    folder: str, hierarchy: Hierarchy, pool: FilePool, *, with_cpu: bool = True
) -> Iterator[Controller]:
    """Yield the controllers of one cgroup, in a hierarchy whose root has these.

    ``with_cpu`` False: v1 measures all of the CPU already.
    """
    if with_cpu:
        yield Controller(_read_v2_cpu, pool, folder, "cpu.stat")
    if "memory" in hierarchy.controllers:
        read = partial(_read_working_set, b"inactive_file")
        names = ("memory.current", "memory.stat")
        yield Controller(read, pool, folder, *names, rhythm=Rhythm.WITH_CPU_TIME)
        yield Controller(_read_limit, pool, folder, "memory.max", rhythm=Rhythm.HARDLY_EVER)
    if "io" in hierarchy.controllers:
        yield Controller(_read_v2_io, pool, folder, "io.stat")


def _read_cpu_time(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    """Read ``cpuacct.usage``: nanoseconds, the groups below included."""
    usage.cpu_ns = number_in(texts[0])
    return usage.cpu_ns is not None


def _read_periods(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    """Read periods of the CPU limit from ``cpu.stat`` of either version; absent without the cpu
    controller."""
    if (stat := texts[0]) is None:
        return False
    usage.periods, usage.throttled = field_of(stat, b"nr_periods"), field_of(stat, b"nr_throttled")
    return True


def _read_v2_cpu(usage: ContainerUsage, texts: Texts, disks: Disks) -> bool:
    """Read ``cpu.stat``: microseconds, always there; the limit's periods only with the cpu controller.

    On a hybrid host v1 may have filled in a part already: that stays.
    """
    stat = texts[0]
    used = field_of(stat, b"usage_usec") if stat else None
    if used is None:
        return False
    if usage.cpu_ns is None:
        usage.cpu_ns = used * 1000
    if usage.periods is None:
        _read_periods(usage, texts, disks)
    return True


def _read_working_set(inactive_file: bytes, usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    """Read the memory that cannot simply be taken back: used less inactive page cache, never below 0; bytes.

    The kubelet's and cAdvisor's definition, which the out-of-memory decisions of a node follow.
    """
    used, stat = number_in(texts[0]), texts[1]
    if used is None or stat is None:
        return False
    inactive = field_of(stat, inactive_file)
    usage.mem_used = None if inactive is None else max(0, used - inactive)
    return True


def _read_limit(usage: ContainerUsage, texts: Texts, _disks: Disks) -> bool:
    """Read the limit of memory, bytes; absent where there is none."""
    most = number_in(texts[0])
    usage.mem_limit = most if most is not None and most < _NO_LIMIT else None
    return texts[0] is not None


def _read_v1_io(usage: ContainerUsage, texts: Texts, disks: Disks) -> bool:
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


def _read_v2_io(usage: ContainerUsage, texts: Texts, disks: Disks) -> bool:
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
