"""Where a host's cgroup hierarchies are mounted: one for v2, one per controller for v1, both on a hybrid."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

V1_CONTROLLERS = frozenset({"cpu", "cpuacct", "memory", "blkio"})
"""The controllers of v1 that measure something that a record carries."""


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted tree of cgroups. ``controllers``: of v1, those that it measures; of v2, those enabled."""

    root: str
    version: int
    controllers: frozenset[str]


def find_hierarchies(host_root: str) -> tuple[Hierarchy, ...]:
    """The hierarchies below ``<host_root>/sys/fs/cgroup``, v1 first; none where nothing is mounted."""
    top = Path(host_root) / "sys/fs/cgroup"
    return (*_v1(top), *_v2(top), *_v2(top / "unified"))


def _v2(root: Path) -> Iterator[Hierarchy]:
    try:
        enabled = (root / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return
    yield Hierarchy(str(root), 2, frozenset(enabled))


def _v1(top: Path) -> Iterator[Hierarchy]:
    for root in sorted(top.iterdir()) if top.is_dir() else ():
        controllers = V1_CONTROLLERS.intersection(root.name.split(","))
        # "cpu" is mostly a link to "cpu,cpuacct", and a folder without cgroup.procs has nothing mounted.
        if controllers and not root.is_symlink() and (root / "cgroup.procs").exists():
            yield Hierarchy(str(root), 1, controllers)
