"""Holds what a container has used so far, and the kernel files that it is read from."""

from collections.abc import Callable

from msgspec import Struct

from collectors.files import CounterFile, FilePool, field_of


class ContainerUsage(Struct):
    """Holds counters since the cgroup was made, and memory now; None: the host does not measure it there.

    ``cpu_ns``: CPU time. ``periods``, ``throttled``: enforcement periods of the CPU limit, and those in
    which it was hit. ``mem_used``: working set, bytes. ``mem_limit``: bytes, None for no limit; as it was
    before, unless ``is_limit_due``. ``io_read``, ``io_write``: bytes.
    """

    cpu_ns: int | None = None
    periods: int | None = None
    throttled: int | None = None
    mem_used: int | None = None
    mem_limit: int | None = None
    io_read: int | None = None
    io_write: int | None = None
    is_limit_due: bool = True


Disks = frozenset[str] | None
"""The devices (``major:minor``) whose I/O counts; None for all."""
_Reader = Callable[[ContainerUsage, list[CounterFile], Disks], bool]
"""Reads the files of one controller into ``ContainerUsage``; False: they are not there (any more)."""


class Controller:
    """Reads the files of one controller in one cgroup, and how they are read.

    ``sleeps``: they say the same as long as the group uses no CPU.
    """

    def __init__(self, read: _Reader, pool: FilePool, folder: str, *names: str, sleeps: bool = False) -> None:
        self.sleeps = sleeps
        self._read = read
        self._files = [pool.file(f"{folder}/{name}") for name in names]

    def read(self, usage: ContainerUsage, disks: Disks) -> bool:
        """Fill in what this controller knows. False: its files are not there (any more)."""
        return self._read(usage, self._files, disks)

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()


def read_periods(usage: ContainerUsage, stat: bytes) -> None:
    """Read periods of the CPU limit from ``cpu.stat`` of either version; absent without the cpu
    controller."""
    usage.periods, usage.throttled = field_of(stat, b"nr_periods"), field_of(stat, b"nr_throttled")


def read_working_set(
    usage: ContainerUsage, used: int | None, stat: bytes | None, inactive_file: bytes
) -> bool:
    """Read the memory that cannot simply be taken back: used less inactive page cache, never below 0.

    The kubelet's and cAdvisor's definition, which the out-of-memory decisions of a node follow.
    """
    if used is None or stat is None:
        return False
    inactive = field_of(stat, inactive_file)
    usage.mem_used = None if inactive is None else max(0, used - inactive)
    return True
