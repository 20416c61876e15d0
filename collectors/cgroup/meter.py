"""One container from tick to tick: its files, its counters, its rates."""

import time
from collections.abc import Callable

from collectors.cgroup import v1, v2
from collectors.cgroup.files import FilePool
from collectors.cgroup.tree import Group, Place
from collectors.cgroup.usage import Source, Usage
from collectors.rates import Rate, Share, percent, whole
from contract.records.samples import Container

_NS_PER_PCT = 10_000_000
"""Nanoseconds of CPU time per second that are 1 % of a core."""


class ContainerMeter:
    """Measures one group for as long as its folders are the same."""

    def __init__(
        self, group: Group, pool: FilePool, container_id: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.places = group.places
        self._id = container_id
        self._clock = clock
        self._sources = _sources(group.places, pool)
        self._cpu = Rate()
        self._throttled = Share()
        self._read = Rate()
        self._written = Rate()

    def measure(self, disks: frozenset[str] | None) -> Container | None:
        """The container now; None when it is gone. ``disks`` as in ``Source.read``."""
        usage = Usage()
        # Taken here and not once a tick: a thread that had to wait would see its wait as CPU time.
        now = self._clock()
        there = [source.read(usage, disks) for source in self._sources]
        if not any(there):
            return None
        cpu = self._cpu.per_s(usage.cpu_ns, now)
        return Container(
            id=self._id,
            cpu_util_pct=percent(cpu / _NS_PER_PCT) if cpu is not None else None,
            cpu_throttled_pct=percent(self._throttled.pct(usage.throttled, usage.periods)),
            mem_used_bytes=usage.mem_used,
            mem_limit_bytes=usage.mem_limit,
            io_read_bytes_per_s=whole(self._read.per_s(usage.io_read, now)),
            io_write_bytes_per_s=whole(self._written.per_s(usage.io_write, now)),
        )

    def close(self) -> None:
        """Close the files that are held."""
        for source in self._sources:
            source.close()


def _sources(places: list[Place], pool: FilePool) -> list[Source]:
    """Where each quantity is read: from v1's hierarchies first, from v2 what those lack."""
    by_v1 = {one for place in places if place.hierarchy.version == 1 for one in place.hierarchy.controllers}
    found: list[Source] = []
    for place in places:
        if place.hierarchy.version == 1:
            found += v1.sources(place.folder, place.hierarchy, pool)
        else:
            found += v2.sources(place.folder, place.hierarchy, pool, with_cpu=not {"cpu", "cpuacct"} <= by_v1)
    return found
