"""Reads what processes run: their files in ``/proc``, bounded in bytes, and names beside their libraries."""

import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from collectors.attribution.processes import printable
from collectors.files import read_small
from collectors.process.commands import ProcessEntry, data_workers, launcher_of, rank_of
from collectors.process.libraries import libraries_of
from dutycycle.contract.records.processes import Software

_MAPS_BYTES = 8 * 1024 * 1024
"""A training maps some hundred files in 100 kB; its ``maps`` has no limit."""
_COMMAND_BYTES, _ENVIRON_BYTES = 16 * 1024, 256 * 1024
_MOST_NAMES = 20_000
"""Of a folder of packages."""
_MOST_PARENTS = 16
_PARENT = 1
"""The field of ``/proc/<pid>/stat`` (proc(5)), counted after the name."""
_INIT = 1


class Processes:
    """Reads the processes of a machine as they are now: a look at all, then the files of those asked for."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._seen: dict[int, ProcessEntry] = {}
        self._children: dict[int, list[ProcessEntry]] = defaultdict(list)
        # All processes of the machine, hundreds of them: a Path for each would cost as much as the rest.
        for entry in os.scandir(proc):
            if not entry.name.isdecimal():
                continue
            try:
                stat = read_small(f"{proc}/{entry.name}/stat")
            except OSError:  # it ended
                continue
            # The name may hold anything: it begins after the first bracket, and ends at the last.
            begin, end = stat.index(b"("), stat.rindex(b")")
            pid, parent = int(entry.name), int(stat[end + 2 :].split()[_PARENT])
            process = self._seen[pid] = ProcessEntry(pid, parent, stat[begin + 1 : end], ())
            self._children[parent].append(process)

    def software(self, pid: int, ranks: frozenset[int]) -> Software | None:
        """Tell what a process runs; None when it has ended. ``ranks``: processes that are nobody's
        workers."""
        unreadable: list[str] = []
        maps = self._read(pid, "maps", _MAPS_BYTES, unreadable)
        environ = self._read(pid, "environ", _ENVIRON_BYTES, unreadable)
        if pid not in self._seen or not (self._proc / str(pid)).exists():
            return None
        loaded = libraries_of(maps.decode(errors="replace"), lambda folder: self._listing(pid, folder))
        workers, how = self.workers(pid, ranks)
        ancestors: list[ProcessEntry] = []
        process = self._seen.get(pid)
        while process is not None and process.parent > _INIT and len(ancestors) < _MOST_PARENTS:
            if (process := self._with_command(process.parent)) is not None:
                ancestors.append(process)
        return Software(
            python=loaded.python, frameworks=loaded.frameworks or None, cuda=loaded.cuda, nccl=loaded.nccl,
            launcher=launcher_of(ancestors), data_workers=len(workers),
            data_workers_by=how if workers else None, unreadable=tuple(unreadable) or None,
            **rank_of(environ),  # type: ignore[arg-type]  # its keys are fields, of their types
        )  # fmt: skip

    def is_launcher(self, pid: int) -> bool:
        """Tell whether it is itself what starts ranks."""
        process = self._with_command(pid)
        return process is not None and launcher_of([process]) is not None

    def workers(self, pid: int, ranks: frozenset[int]) -> tuple[tuple[int, ...], str]:
        """Return the data-loader workers of a process, and how they are known."""
        if (process := self._with_command(pid)) is None:
            return (), "command"
        children = {process.pid: self._below(process.pid)}
        for child in children[process.pid]:
            children[child.pid] = self._below(child.pid)
        return data_workers(process, children, ranks)

    def name(self, pid: int) -> str | None:
        """Return its ``comm``."""
        process = self._seen.get(pid)
        return printable(process.name.decode(errors="replace")) if process else None

    def _below(self, pid: int) -> list[ProcessEntry]:
        return [
            process for child in self._children.get(pid, ()) if (process := self._with_command(child.pid))
        ]

    def _with_command(self, pid: int) -> ProcessEntry | None:
        entry = self._seen.get(pid)
        if entry is not None and not entry.command:
            words = self._read(pid, "cmdline", _COMMAND_BYTES, []).rstrip(b"\0").split(b"\0")
            entry = self._seen[pid] = ProcessEntry(pid, entry.parent, entry.name, tuple(words))
        return entry

    def _read(self, pid: int, name: str, most: int, unreadable: list[str]) -> bytes:
        try:
            with (self._proc / str(pid) / name).open("rb", buffering=0) as file:
                parts, left = [], most
                while left and (part := file.read(min(left, 65_536))):  # a page or a few at a time
                    parts.append(part)
                    left -= len(part)
                return b"".join(parts)
        except PermissionError:
            unreadable.append(name)
        except OSError:  # it ended
            return b""
        return b""

    def _listing(self, pid: int, folder: str) -> Iterator[str]:
        # Names alone are used, and only those that look like a package's: so it does no harm that a link in
        # the container's files may lead out of it.
        try:
            with os.scandir(f"{self._proc}/{pid}/root{folder}") as entries:
                yield from (entry.name for entry in islice(entries, _MOST_NAMES))
        except OSError:  # not permitted, or not there any more
            return
