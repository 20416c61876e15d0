"""Measures the node itself: CPU, memory, disks and network, from the host's ``/proc``."""

import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from collectors.files import FilePool, number_in
from collectors.interfaces import interface_bytes, physical, speed
from collectors.rates import PairRate, Rate, rounded, rounded_pct
from dutycycle.contract.records.samples import Host
from dutycycle.contract.units import MAX_INTEGER, sum_of_all

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_BUSY = (0, 1, 2, 5, 6)
"""user, nice, system, irq, softirq: not idle, not waiting for a disk, not taken by the hypervisor. Guests
are in user already (proc(5), /proc/stat)."""
_SECTOR_BYTES = 512  # diskstats counts these whatever the disk's own sector is
_SPEED_TICKS = 60
"""A link's speed hardly ever changes, and some drivers take a millisecond to say it."""
# Made of other disks, of memory or of files: their bytes are counted below, or are no disk's.
_STACKED = re.compile(r"(loop|ram|zram|dm-|md|drbd|bcache|zd|sr|fd)\d+|nvme\d+c\d+n\d+.*")


class HostReader:
    """Measures the node from ``stat``, ``meminfo``, ``diskstats`` and ``1/net/dev`` of the host's ``/proc``.

    CPU in percent of a core (400: four busy cores), memory in bytes, disks and network in bytes per second.
    A file that cannot be read leaves its own fields absent, not the others.
    """

    def __init__(
        self,
        host_root: str = "/",
        *,
        pool: FilePool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Measure the node of ``host_root``; its files are kept open in ``pool``."""
        self._root = host_root
        pool = pool or FilePool()
        proc = Path(host_root) / "proc"
        self._files = {name: pool.file(str(proc / name)) for name in ("stat", "meminfo")}
        # Without "1" it is the network of whoever reads: a container's own, not the host's.
        for name in ("diskstats", "1/net/dev", "net/dev"):
            self._files[name] = pool.file_of_records(str(proc / name))
        self._clock = clock
        self._cpu = Rate()
        self._disk = PairRate()
        self._net = PairRate()
        self._names: frozenset[str] = frozenset()
        self._physical: frozenset[str] = frozenset()
        self._speed: int | None = None
        self._speed_due = 0
        self.disks: frozenset[str] | None = None
        """The whole disks of the last reading, as ``major:minor``; None when they could not be read."""

    def read(self) -> Host:
        """Return the node now; rates since the last reading, absent in the first."""
        busy, count = cpu_ticks(self._text("stat"))
        rate = self._cpu.per_s(busy, self._clock())
        cpu = None
        if rate is not None and count is not None:
            # Ticks are whole hundredths of a second: a full core may seem a little more than full.
            cpu = rounded_pct(min(100.0 * count, 100 * rate / _TICKS_PER_S))
        used, total = memory_bytes(self._text("meminfo"))
        text = self._text("diskstats")
        disks = disk_bytes(text) if text is not None else {}
        self.disks = frozenset(disks) if text is not None else None
        disk_read, disk_write = self._disk.per_s(disks, self._clock())
        bytes_by_interface = interface_bytes(self._text("1/net/dev") or self._text("net/dev") or "")
        if bytes_by_interface.keys() != self._names:
            self._names = frozenset(bytes_by_interface)
            self._physical = physical(self._names, self._root)
            self._speed_due = 0
        if not self._speed_due:
            used_names = (name for name in self._physical if any(bytes_by_interface[name]))
            self._speed = speed(used_names, self._root)
            self._speed_due = _SPEED_TICKS
        self._speed_due -= 1
        counted = {name: bytes_by_interface[name] for name in self._physical}
        net_rx, net_tx = self._net.per_s(counted, self._clock())
        return Host(
            cpu_util_pct=cpu, cpu_count=count, mem_used_bytes=used, mem_total_bytes=total,
            disk_read_bytes_per_s=rounded(disk_read), disk_write_bytes_per_s=rounded(disk_write),
            net_rx_bytes_per_s=rounded(net_rx), net_tx_bytes_per_s=rounded(net_tx),
            net_speed_bytes_per_s=self._speed,
        )  # fmt: skip

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _text(self, name: str) -> str | None:
        text = self._files[name].read()
        return None if text is None else text.decode(errors="replace")


def cpu_ticks(stat: str | None) -> tuple[int | None, int | None]:
    """Return busy ticks of all CPUs together since boot, and how many CPUs are online, from
    ``/proc/stat``."""
    lines = [line for line in (stat or "").splitlines() if line.startswith("cpu")]
    totals = [fields for line in lines if line[:4] == "cpu " and len(fields := line.split()) > max(_BUSY) + 1]
    if not totals:
        return None, None
    ticks = [number_in(totals[0][index + 1]) for index in _BUSY]
    return sum_of_all(ticks), len(lines) - 1 or None


def memory_bytes(meminfo: str | None) -> tuple[int | None, int | None]:
    """Return bytes used (total less available) and in total, from ``/proc/meminfo``."""
    names = ("MemTotal:", "MemAvailable:")
    lines = (line.split() for line in (meminfo or "").splitlines() if line.startswith(names))
    kib = {line[0]: number for line in lines if len(line) >= 2 and (number := number_in(line[1])) is not None}
    total, available = kib.get("MemTotal:"), kib.get("MemAvailable:")
    if not total or total > MAX_INTEGER // 1024:
        return None, None
    return None if available is None else max(0, total - available) * 1024, total * 1024


def disk_bytes(text: str) -> dict[str, tuple[int, int]]:
    """Return bytes read and written since boot of each whole disk, by its ``major:minor``.

    Partitions are left out, and so is what stands on other disks (device mapper, RAID, loop, zram).
    """
    rows = [fields for line in text.splitlines() if len(fields := line.split()) >= 10]
    names = {row[2] for row in rows}
    counted = {}
    for row in rows:
        # sda1 is a part of sda, nvme0n1p2 of nvme0n1; a lone xvda1, as some virtual machines have, is whole.
        disk = row[2].rstrip("0123456789")
        of_nvme = disk[-1:] == "p" and disk[-2:-1].isdigit() and disk[:-1] in names
        is_partition = disk != row[2] and (disk in names or of_nvme)
        read, written = number_in(row[5]), number_in(row[9])
        if not is_partition and not _STACKED.fullmatch(row[2]) and read is not None and written is not None:
            counted[f"{row[0]}:{row[1]}"] = read * _SECTOR_BYTES, written * _SECTOR_BYTES
    return counted
