"""What a container has used so far, as its cgroup's counters say it."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(slots=True)
class Usage:
    """Counters since the cgroup was made, and memory now; None: the host does not measure it there.

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


class Source(Protocol):
    """One controller's files of one cgroup."""

    def read(self, usage: Usage, disks: frozenset[str] | None) -> bool:
        """Fill in what this controller knows. False: its files are not there (any more).

        ``disks``: the devices (``major:minor``) whose I/O counts; None for all.
        """
        ...

    def close(self) -> None:
        """Give back what is held."""
        ...


def working_set(used: int | None, inactive_file: int | None) -> int | None:
    """Memory that cannot simply be taken back: used less inactive page cache, never below 0.

    The kubelet's and cAdvisor's definition, which the out-of-memory decisions of a node follow.
    """
    if used is None or inactive_file is None:
        return None
    return max(0, used - inactive_file)
