"""Holds what a container has used so far, and the kernel files that it is read from."""

from collections.abc import Callable
from enum import Enum, auto

from msgspec import Struct

from collectors.files import FilePool, field_of


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
