"""Finds where a host's cgroup hierarchies are mounted: one for v2, one per controller for v1, both on a
hybrid."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_IO_FILES = tuple(
    f"blkio.{policy}.io_service_bytes{reach}"
    for policy in ("throttle", "bfq")
    for reach in ("_recursive", "")
)
_V1_CONTROLLERS = frozenset({"cpu", "cpuacct", "memory", "blkio"})
"""The controllers of v1 that measure something that a record carries."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Describes one mounted tree of cgroups.

    ``controllers``: of v1, those that it measures; of v2, those enabled. ``io_file``: of v1's blkio, the
    name of the file that counts bytes.
    """

    root: str
    version: int
    controllers: frozenset[str]
    io_file: str = ""


def find_hierarchies(host_root: str) -> tuple[Hierarchy, ...]:
    """Return the hierarchies below ``<host_root>/sys/fs/cgroup``, v1 first; none where nothing is mounted."""
    top = Path(host_root) / "sys/fs/cgroup"
    of_v1: list[Hierarchy] = []
    for root in sorted(top.iterdir()) if top.is_dir() else ():
        controllers = _V1_CONTROLLERS.intersection(root.name.split(","))
        # "cpu" is mostly a link to "cpu,cpuacct", and a folder without cgroup.procs has nothing mounted.
        if not controllers or root.is_symlink() or not (root / "cgroup.procs").exists():
            continue
        # From Linux 6.10 on v1's throttling counts nothing before a limit is set, and bfq only the disks that
        # it schedules: their files are there and say 0. A host without any I/O since boot does not run us.
        io_file = ""
        for name in _IO_FILES if "blkio" in controllers else ():
            with suppress(OSError, ValueError):
                if (root / name).read_text(encoding="ascii").split()[-1:] not in ([], ["0"]):
                    io_file = name
                    break
        if counted := controllers if io_file else controllers - {"blkio"}:
            of_v1.append(Hierarchy(str(root), 1, counted, io_file))
    return (*of_v1, *_v2(top), *_v2(top / "unified"))


def _v2(root: Path) -> Iterator[Hierarchy]:
    try:
        enabled = (root / "cgroup.controllers").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return
    yield Hierarchy(str(root), 2, frozenset(enabled))
