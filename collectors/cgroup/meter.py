"""Measures one container from tick to tick: its files, its counters, its rates."""

import time
from collections.abc import Callable

from collectors.cgroup.tree import CgroupFolder, Group
from collectors.cgroup.usage import ContainerUsage, Controller, Disks
from collectors.cgroup.v1 import v1_controllers
from collectors.cgroup.v2 import v2_controllers
from collectors.files import FilePool
from collectors.rates import CounterRatio, Rate, rounded, rounded_pct
from dutycycle.contract.records.samples import Container

_NS_PER_PCT = 10_000_000
"""Nanoseconds of CPU time per second that are 1 % of a core."""
_EVERY_TICKS = 10
"""A limit hardly ever changes: it is read once in so many ticks. So is the memory of a group that has used no
CPU since the tick before: it is as it was, but for what the kernel took back or others left there."""


class ContainerMeter:
    """Measures one group for as long as its folders are the same."""

    def __init__(
        self, group: Group, pool: FilePool, container_id: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.own_folders = group.own_folders
        self._id = container_id
        self._clock = clock
        self._controllers = _controllers(group.own_folders, pool)
        self._steady = [controller for controller in self._controllers if not controller.sleeps]
        self._sleeping = [controller for controller in self._controllers if controller.sleeps]
        self._last: ContainerUsage | None = None
        self._ticks = sum(container_id.encode())  # not all groups in the same tick
        self._cpu = Rate()
        self._throttled = CounterRatio()
        self._read = Rate()
        self._written = Rate()

    def measure(self, disks: Disks) -> Container | None:
        """Measure the container now; None when it is gone.

        CPU in percent of a core, throttling in percent of the limit's periods, memory in bytes, I/O in bytes
        per second on ``disks``. Rates are absent at first; what no controller of the host counts, always.
        """
        last = self._last or ContainerUsage()
        self._ticks += 1
        is_due = self._last is None or self._ticks % _EVERY_TICKS == 0
        usage = self._last = ContainerUsage(is_limit_due=is_due, mem_limit=last.mem_limit)
        # Taken here and not once a tick: a thread that had to wait would see its wait as CPU time.
        now = self._clock()
        is_there = False
        for controller in self._steady:
            is_there |= controller.read(usage, disks)
        if is_due or usage.cpu_ns is None or usage.cpu_ns != last.cpu_ns:
            for controller in self._sleeping:
                is_there |= controller.read(usage, disks)
        else:
            usage.mem_used, usage.periods, usage.throttled = last.mem_used, last.periods, last.throttled
        if not is_there:
            return None
        cpu = self._cpu.per_s(usage.cpu_ns, now)
        return Container(
            id=self._id,
            cpu_util_pct=rounded_pct(cpu / _NS_PER_PCT) if cpu is not None else None,
            cpu_throttled_pct=rounded_pct(self._throttled.pct(usage.throttled, usage.periods)),
            mem_used_bytes=usage.mem_used,
            mem_limit_bytes=usage.mem_limit,
            io_read_bytes_per_s=rounded(self._read.per_s(usage.io_read, now)),
            io_write_bytes_per_s=rounded(self._written.per_s(usage.io_write, now)),
        )

    def close(self) -> None:
        """Close the files that are held."""
        for controller in self._controllers:
            controller.close()


def _controllers(folders: list[CgroupFolder], pool: FilePool) -> list[Controller]:
    """Return what is read for each quantity: from v1's hierarchies first, from v2 what those lack."""
    by_v1 = {
        name for folder in folders if folder.hierarchy.version == 1 for name in folder.hierarchy.controllers
    }
    controllers: list[Controller] = []
    for folder in folders:
        if folder.hierarchy.version == 1:
            controllers += v1_controllers(folder.path, folder.hierarchy, pool)
        else:
            with_cpu = not {"cpu", "cpuacct"} <= by_v1
            controllers += v2_controllers(folder.path, folder.hierarchy, pool, with_cpu=with_cpu)
    return controllers
