"""Which cgroups are reported: one for each container, unit or other group, found in every hierarchy."""

import os
from collections.abc import Collection
from dataclasses import dataclass, field

from collectors.attribution.cgroup_path import CgroupId, Kind, parse_cgroup_path
from collectors.cgroup.listing import FolderListing
from collectors.cgroup.mounts import Hierarchy

_ORDER = {Kind.POD: 0, Kind.CONTAINER: 1, Kind.UNIT: 2, Kind.OTHER: 3}


@dataclass(frozen=True, slots=True)
class Place:
    """A group's folder in one hierarchy. ``inode`` is another one when the folder was made anew."""

    hierarchy: Hierarchy
    folder: str
    inode: int


@dataclass(slots=True)
class Group:
    """One reported cgroup.

    ``key``: pod and container; the same from tick to tick, in whichever hierarchies the group is.
    ``folders``: its own and those nested in it, where its processes may be.
    """

    key: tuple[str, str]
    id: CgroupId
    places: list[Place] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


class CgroupTree:
    """Lists the groups of these kinds, at most ``limit``: pods first, then containers, then the rest.

    Nothing is counted twice: a group with reported groups below it is left out (a kind node, a user's
    service manager), except a pod, which always counts as a whole.
    """

    def __init__(
        self, hierarchies: Collection[Hierarchy], kinds: Collection[Kind], *, limit: int = 2000
    ) -> None:
        self._listings = [(hierarchy, FolderListing(hierarchy.root)) for hierarchy in hierarchies]
        self._kinds = frozenset(kinds)
        self._limit = limit
        self._ids: dict[str, CgroupId | None] = {}
        self._found: list[Group] = []
        self.left_out = 0
        """How many groups the limit left out of the last list."""

    def groups(self) -> list[Group]:
        """The groups that exist now, in a lasting order.

        Raises ``OSError`` when a hierarchy cannot be listed at all.
        """
        changed = [listing.refresh() for _, listing in self._listings]  # each of them is to look
        if any(changed):
            self._found = self._find()
        present = [group for group in self._found if self._is_used(group)]
        parents = _parents(present)
        chosen = [one for one in present if one.id.kind is Kind.POD or one.id.path not in parents]
        self.left_out = max(0, len(chosen) - self._limit)
        return chosen[: self._limit]

    def _find(self) -> list[Group]:
        found: dict[tuple[str, str], Group] = {}
        ids: dict[str, CgroupId | None] = {}
        for hierarchy, listing in self._listings:
            for path, inode in listing.folders.items():
                who = ids[path] = self._ids[path] if path in self._ids else parse_cgroup_path(path)
                if who is not None and self._reports(who):
                    _enter(found, who, hierarchy, path, inode)
        self._ids = ids
        groups = [group for group in found.values() if group.places]
        return sorted(groups, key=lambda one: (_ORDER[one.id.kind], one.id.path))

    def _reports(self, who: CgroupId) -> bool:
        # A pod's own folder holds no processes, only its containers' folders.
        return who.kind in self._kinds and (who.kind is not Kind.POD or who.container_id is not None)

    def _is_used(self, group: Group) -> bool:
        """Whether anything runs there. A container's folder lives and dies with it: no need to ask."""
        return group.id.kind in (Kind.POD, Kind.CONTAINER) or any(
            first_pid(folder) is not None for folder in group.folders
        )


def _enter(
    found: dict[tuple[str, str], Group], who: CgroupId, hierarchy: Hierarchy, path: str, inode: int
) -> None:
    key = (who.pod_uid or "", who.container_id or who.path)
    if (group := found.get(key)) is None:
        group = found[key] = Group(key, who)
    folder = hierarchy.root + path
    group.folders.append(folder)
    if path == who.path:
        group.places.append(Place(hierarchy, folder, inode))


def _parents(groups: Collection[Group]) -> set[str]:
    parents = set()
    for group in groups:
        above = group.id.path.rpartition("/")[0]
        while above and above not in parents:
            parents.add(above)
            above = above.rpartition("/")[0]
    return parents


def first_pid(folder: str) -> int | None:
    """The first process in a cgroup; None when there is none, or none that we may see."""
    try:
        fd = os.open(f"{folder}/cgroup.procs", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, 64)
    except OSError:  # a threaded group keeps its processes above
        return None
    finally:
        os.close(fd)
    # 0 stands for a process outside our pid namespace: it is there, but it has no number for us.
    return int(text.partition(b"\n")[0]) if text else None
