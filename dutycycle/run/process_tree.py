"""Reads the processes of a command: it, what it started, and what these started, from ``/proc``."""

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_INIT = 1
_PPID, _TIMES = 1, slice(11, 15)
"""Fields of ``/proc/<pid>/stat`` (proc(5)), counted after the name: the parent; utime and stime, of the
process and of its children that were waited for."""


@dataclass(frozen=True, slots=True)
class TreeUse:
    """Sums all processes. ``cpu_s``, ``read_bytes`` and ``written_bytes`` count from the start, with the
    processes that have ended and were waited for; I/O is None where it may not be read.

    ``mem_bytes``: what each holds for itself, and once the largest part that is shared. An estimate: pages
    that a fork left shared count for both.
    """

    pids: frozenset[int]
    cpu_s: float
    mem_bytes: int
    read_bytes: int | None
    written_bytes: int | None


class ProcessTree:
    """Measures everything below ``parent``, which started nothing else, and to whom orphans come (a
    subreaper)."""

    def __init__(self, parent: int, proc: str = "/proc") -> None:
        self._parent = parent
        self._proc = Path(proc)

    def read(self) -> TreeUse | None:
        """Return what the processes use and have used until now; None when there is no process any more."""
        stats: dict[int, list[bytes]] = {}
        for entry in os.scandir(self._proc):
            if entry.name.isdecimal() and (stat := self._stat(int(entry.name))) is not None:
                stats[int(entry.name)] = stat
        children: dict[int, list[int]] = {}
        for pid, fields in stats.items():
            children.setdefault(int(fields[_PPID]), []).append(pid)
        waiting, pids = list(children.get(self._parent, ())), set[int]()
        while waiting:
            pid = waiting.pop()
            pids.add(pid)
            waiting += children.get(pid, ())
        if not pids:
            return None
        own = most_shared = 0
        moved: list[tuple[int, int]] = []
        for pid in pids:
            folder = self._proc / str(pid)
            with suppress(OSError):  # it has ended
                pages = (folder / "statm").read_text().split()
                shared = int(pages[2]) * _PAGE  # of a file, or with others
                own += int(pages[1]) * _PAGE - shared
                most_shared = max(most_shared, shared)
            with suppress(OSError):  # what goes from and to disks may not be read
                counters = dict(line.split(": ") for line in (folder / "io").read_text().splitlines())
                moved.append((int(counters["read_bytes"]), int(counters["write_bytes"])))
        ticks = sum(sum(map(int, stats[pid][_TIMES])) for pid in pids)
        return TreeUse(
            pids=frozenset(pids),
            cpu_s=ticks / _TICKS_PER_S,
            mem_bytes=own + most_shared,
            read_bytes=sum(read for read, _ in moved) if moved else None,
            written_bytes=sum(written for _, written in moved) if moved else None,
        )

    def holds(self, pid: int) -> bool:
        """Tell whether a process is one of them, by its parents."""
        while pid > _INIT:
            fields = self._stat(pid)
            if fields is None:
                return False
            pid = int(fields[_PPID])
            if pid == self._parent:
                return True
        return False

    def _stat(self, pid: int) -> list[bytes] | None:
        """Return the fields of ``/proc/<pid>/stat`` after the name; None of a process that has ended."""
        try:
            stat = (self._proc / str(pid) / "stat").read_bytes()
        except OSError:
            return None
        # The name may hold anything: the fields begin after its last bracket.
        return stat[stat.rindex(b")") + 2 :].split()
