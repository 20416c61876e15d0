"""Measures one container from tick to tick: its files, its counters, its rates."""

import time
from collections.abc import Callable

from collectors.cgroup.controllers import (
    ContainerUsage,
    Controller,
    Disks,
    Rhythm,
    Texts,
    v1_controllers,
    v2_controllers,
)
from collectors.cgroup.tree import CgroupFolder, Group
from collectors.files import FilePool
from collectors.rates import CounterRatio, Growth, per_s, rounded, rounded_pct
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
        by_rhythm = {
            rhythm: [controller for controller in self._controllers if controller.rhythm is rhythm]
            for rhythm in Rhythm
        }
        self._steady, self._sleeping = by_rhythm[Rhythm.ANY_TICK], by_rhythm[Rhythm.WITH_CPU_TIME]
        self._steady_files = [file for controller in self._steady for file in controller.files]
        self._lasting = by_rhythm[Rhythm.HARDLY_EVER]
        self._last: ContainerUsage | None = None
        self._texts: Texts = []
        """Holds what the files said at the last tick that are read at each."""
        self._disks: Disks = None
        self._container: Container | None = None
        self._is_still = False
        """Says whether the last two ticks read and measured the same."""
        self._ticks = sum(container_id.encode())  # not all groups in the same tick
        self._at = 0.0
        self._cpu, self._io_read, self._io_written = Growth(), Growth(), Growth()
        self._throttled = CounterRatio()

    def measure(self, disks: Disks) -> Container | None:
        """Measure the container now; None when it is gone.

        CPU in percent of a core, throttling in percent of the limit's periods, memory in bytes, I/O in bytes
        per second on ``disks``. Rates are absent at first; what no controller of the host counts, always.
        """
        self._ticks += 1
        is_due = self._last is None or self._ticks % _EVERY_TICKS == 0
        # Taken here and not once a tick: a thread that had to wait would see its wait as CPU time.
        now = self._clock()
        texts = [file.read() for file in self._steady_files]
        is_same = texts == self._texts and disks == self._disks
        if is_same and self._is_still and not is_due and self._container is not None:
            # As most are on a node: to work it out again costs three times the reading.
            self._at = now
            return self._container
        self._texts, self._disks = texts, disks
        # What it has used until now, and below the rates since the tick before.
        last = self._last or ContainerUsage()
        usage = self._last = ContainerUsage(mem_limit=last.mem_limit)
        is_there, left = False, iter(texts)
        for controller in self._steady:
            is_there |= controller.take(usage, [next(left) for _ in controller.files], disks)
        if is_due or usage.cpu_ns is None or usage.cpu_ns != last.cpu_ns:
            for controller in self._sleeping:
                is_there |= controller.take(usage, [file.read() for file in controller.files], disks)
        else:
            usage.mem_used, usage.periods, usage.throttled = last.mem_used, last.periods, last.throttled
        if is_due:
            for controller in self._lasting:
                controller.take(usage, [file.read() for file in controller.files], disks)
        if not is_there:  # none of the files
            self._is_still, self._container = False, None
            return None
        passed_s, self._at = now - self._at, now
        cpu = per_s(self._cpu.add(usage.cpu_ns), passed_s)
        container = Container(
            id=self._id,
            cpu_util_pct=rounded_pct(cpu / _NS_PER_PCT) if cpu is not None else None,
            cpu_throttled_pct=rounded_pct(self._throttled.pct(usage.throttled, usage.periods)),
            mem_used_bytes=usage.mem_used,
            mem_limit_bytes=usage.mem_limit,
            io_read_bytes_per_s=rounded(per_s(self._io_read.add(usage.io_read), passed_s)),
            io_write_bytes_per_s=rounded(per_s(self._io_written.add(usage.io_write), passed_s)),
        )
        # Where its CPU time is not known, only its memory tells whether the memory is the same.
        self._is_still = usage.cpu_ns is not None and is_same and container == self._container
        self._container = container
        return container

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
