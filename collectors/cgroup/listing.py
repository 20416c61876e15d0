"""The folders of one cgroup hierarchy, listed anew only when one came or went."""

import os

_LEAF_LINKS = 2
"""A folder's link count is 2 plus its sub-folders, wherever links are counted; cgroups count them."""


class FolderListing:
    """Every folder below ``root``.

    ``folders``: path from there → inode, which a folder made anew does not share.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._seen: dict[str, tuple[int, int]] = {}
        self._is_counted = False
        self.folders: dict[str, int] = {}

    def refresh(self) -> bool:
        """Look again; whether anything changed. Raises ``OSError`` when ``root`` itself is not there.

        Asking each folder for its inode and link count is several times cheaper than listing it with its
        thirty files, and says all: a sub-folder that came or went changes the count, and one that was
        replaced has another inode.
        """
        if self._is_counted and all(self._stat(path) == was for path, was in self._seen.items()):
            return False
        self._walk()
        return True

    def _walk(self) -> None:
        waiting, children = [""], 0
        self._seen = {}
        while waiting:
            path = waiting.pop()
            if (found := self._stat(path)) is None:
                continue  # removed since it was listed
            self._seen[path] = found
            if found[1] != _LEAF_LINKS:
                names = self._names(path)
                children += len(names)
                waiting += [f"{path}/{name}" for name in reversed(names)]
        self.folders = {path: inode for path, (inode, _) in self._seen.items() if path}
        # Not so on a file system that counts no links, or when something changed while we looked.
        links = sum(links - _LEAF_LINKS for _, links in self._seen.values())
        self._is_counted = links == children == len(self.folders)

    def _stat(self, path: str) -> tuple[int, int] | None:
        try:
            # A Path for each folder and tick would cost as much as the call itself.
            found = os.stat(self._root + path, follow_symlinks=False)  # noqa: PTH116
        except OSError:
            if not path:
                raise
            return None
        return found.st_ino, found.st_nlink

    def _names(self, path: str) -> list[str]:
        try:
            with os.scandir(self._root + path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:  # removed since it was listed, or not ours to see
            return []
