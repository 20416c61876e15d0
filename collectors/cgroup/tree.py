"""Finds which cgroups are reported: one for each container, unit or other group, found in every hierarchy."""

import os
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from collectors.attribution.cgroup_path import CgroupId, CgroupKind, parse_cgroup_path
from collectors.cgroup.changes import FolderChanges
from collectors.cgroup.mounts import Hierarchy

_LEAF_LINKS = 2
"""A folder's link count is 2 plus its sub-folders, on a file system that counts links, as cgroups do."""
_LASTING = (CgroupKind.POD, CgroupKind.CONTAINER)
_ORDER = {CgroupKind.POD: 0, CgroupKind.CONTAINER: 1, CgroupKind.UNIT: 2, CgroupKind.OTHER: 3}


_MANY = 8
"""So many folders in one make it worth to hold that one open."""
_Found = tuple[int, int]
"""A folder's inode and link count."""
_LOOK_EVERY = 60
"""A tree whose folders are watched is looked at once in so many ticks all the same: a file system that is
mounted from elsewhere may change without an event."""


@dataclass(frozen=True, slots=True)
class CgroupFolder:
    """Names a group's folder in one hierarchy. ``inode`` is another one when the folder was made anew."""

    hierarchy: Hierarchy
    path: str
    inode: int


@dataclass(slots=True)
class Group:
    """Describes one reported cgroup.

    ``key``: pod and container; the same from tick to tick, in whichever hierarchies the group is.
    ``own_folders``: where its counters are, one for each hierarchy. ``folders``: the paths of those and of
    the folders nested in them, where its processes may be.
    """

    key: tuple[str, str]
    id: CgroupId
    own_folders: list[CgroupFolder] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)


class _Base(NamedTuple):
    """Holds a folder that is held open, and how long its path is, with the slash behind it."""

    fd: int
    length: int


_Seen = tuple[str, int | None, _Found]
"""A folder's name, from which open folder, and how it was."""


class FolderListing:
    """Lists every folder of one hierarchy, listed anew only when one came or went.

    ``folders``: path from there → inode, which a folder made anew does not share.
    """

    def __init__(
        self,
        root: str,
        watch: Callable[[str], bool] = lambda _: False,
        *,
        leaf_links: int = _LEAF_LINKS,
        many: int = _MANY,
    ) -> None:
        """List what is below ``root``. ``watch`` tells whether the kernel will say what changes in a
        folder."""
        self._root = root
        self._watch = watch
        self._leaf_links = leaf_links
        self._many = many
        self._bases: list[_Base] = []
        self._seen: list[_Seen] = []
        self._is_counted = False
        self.is_watched = False
        """Whether all folders are watched: then ``refresh`` is needed only after a change."""
        self.folders: dict[str, int] = {}

    def refresh(self) -> bool:
        """Look again; whether anything changed. Raises ``OSError`` when ``root`` itself is not there.

        Asking each folder for its inode and link count is several times cheaper than listing it with its
        thirty files, and says all: a sub-folder that came or went changes the count, and one that was
        replaced has another inode. Asking from a folder that is open, and not from the top, halves that.
        """
        if self._is_counted and self._is_unchanged():
            return False
        self.close()
        waiting: list[tuple[str, _Base | None]] = [("", None)]
        children = links = 0
        self._seen, self.folders = [], {}
        is_watched = True
        while waiting:
            path, base = waiting.pop()
            name = self._root + path if base is None else path[base.length :]
            fd = None if base is None else base.fd
            watched = self._watch(self._root + path)  # before the look: what comes in between is said
            try:
                # A Path for each folder and tick would cost as much as the call itself.
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                state = status.st_ino, status.st_nlink
            except OSError:  # removed since it was listed
                if not path:
                    raise
                continue
            is_watched &= watched
            self._seen.append((name, fd, state))
            links += state[1] - self._leaf_links
            if path:
                self.folders[path] = state[0]
            if state[1] != self._leaf_links:
                names: list[str] = []
                with suppress(OSError), os.scandir(self._root + path) as entries:  # gone, or not ours to see
                    names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
                children += len(names)
                if len(names) >= self._many:
                    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
                    with suppress(OSError):  # removed since it was listed
                        base = _Base(os.open(self._root + path, flags), len(path) + 1)
                        self._bases.append(base)
                waiting += [(f"{path}/{below}", base) for below in reversed(names)]
        # Not so on a file system that counts no links, or when something changed meanwhile.
        self._is_counted = links == children == len(self.folders)
        self.is_watched = is_watched
        return True

    def close(self) -> None:
        """Close the folders that are held open."""
        for base in self._bases:
            os.close(base.fd)
        self._bases = []
        self._is_counted = self.is_watched = False

    def _is_unchanged(self) -> bool:
        try:
            for name, fd, state in self._seen:
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if (status.st_ino, status.st_nlink) != state:
                    return False
        except OSError:
            return False
        return True


class CgroupTree:
    """Lists the groups of these kinds, at most ``limit``: pods first, then containers, then the rest.

    Nothing is counted twice: a group with reported groups below it is left out (a kind node, a user's
    service manager), except a pod, which always counts as a whole.
    """

    def __init__(
        self, hierarchies: Collection[Hierarchy], kinds: Collection[CgroupKind], *, limit: int = 2000
    ) -> None:
        self._changes = FolderChanges()
        self._listings = [
            (hierarchy, FolderListing(hierarchy.root, partial(self._changes.watch, number)))
            for number, hierarchy in enumerate(hierarchies)
        ]
        self._kinds = frozenset(kinds)
        self._limit = limit
        self._ids: dict[str, CgroupId | None] = {}
        self._lasting: list[Group] = []
        self._others: list[Group] = []
        self._present: list[Group] = []
        self._chosen: list[Group] = []
        """Of those that were present last, what is reported."""
        self._looks = 0
        self.left_out = 0
        """How many groups the limit left out of the last list."""

    def groups(self) -> list[Group]:
        """Return the groups that exist now, in a lasting order; the same list as before if they are the same.

        Raises ``OSError`` when a hierarchy cannot be listed at all.
        """
        # Looked at is what the kernel does not watch for us, or in which it saw a change.
        changed = self._changes.drain()
        self._looks += 1
        is_changed = False
        for number, (_, listing) in enumerate(self._listings):
            is_due = (self._looks + number) % _LOOK_EVERY == 0  # not all at one tick
            if number in changed or is_due or not listing.is_watched:
                is_changed = listing.refresh() or is_changed
        if is_changed:
            groups = self._find()
            # Pods and containers come first, and their folders are there as long as they are.
            self._lasting = [group for group in groups if group.id.kind in _LASTING]
            self._others = groups[len(self._lasting) :]
        used = (
            group for group in self._others if any(first_pid(folder) is not None for folder in group.folders)
        )
        present = [*self._lasting, *used]
        if present != self._present:
            parents = set()
            for group in present:
                above = group.id.path.rpartition("/")[0]
                while above and above not in parents:
                    parents.add(above)
                    above = above.rpartition("/")[0]
            self._present = present
            chosen = [
                group for group in present if group.id.kind is CgroupKind.POD or group.id.path not in parents
            ]
            self._chosen, self.left_out = chosen[: self._limit], max(0, len(chosen) - self._limit)
        return self._chosen

    def close(self) -> None:
        """Close the folders that are held open."""
        self._changes.close()
        for _, listing in self._listings:
            listing.close()

    def _find(self) -> list[Group]:
        group_by_key: dict[tuple[str, str], Group] = {}
        ids: dict[str, CgroupId | None] = {}
        for hierarchy, listing in self._listings:
            for path, inode in listing.folders.items():
                who = ids[path] = self._ids[path] if path in self._ids else parse_cgroup_path(path)
                if who is None or who.kind not in self._kinds:
                    continue
                # A pod's own folder holds no processes, only its containers' folders.
                if who.kind is CgroupKind.POD and who.container_id is None:
                    continue
                key = (who.pod_uid or "", who.container_id or who.path)
                if (group := group_by_key.get(key)) is None:
                    group = group_by_key[key] = Group(key, who)
                folder = hierarchy.root + path
                group.folders.append(folder)
                if path == who.path:
                    group.own_folders.append(CgroupFolder(hierarchy, folder, inode))
        self._ids = ids
        groups = [group for group in group_by_key.values() if group.own_folders]
        return sorted(groups, key=lambda group: (_ORDER[group.id.kind], group.id.path))


def first_pid(folder: str) -> int | None:
    """Return the first process in a cgroup; None when there is none, or none that we may see."""
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
