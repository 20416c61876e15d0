"""Learns from the kernel which folders came and went, by inotify: one read a tick, and not a look at each."""

import ctypes
import os
import weakref
from struct import Struct

_EVENT = Struct("iIII")
"""``struct inotify_event``: watch, mask, cookie, and the bytes of the name behind it."""
_MOVED_FROM, _MOVED_TO, _CREATED, _DELETED, _DELETED_SELF = 0x40, 0x80, 0x100, 0x200, 0x400
_UNMOUNTED, _OVERFLOWED, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLY_FOLDERS, _IS_FOLDER = 0x01000000, 0x40000000
_WANTED = _MOVED_FROM | _MOVED_TO | _CREATED | _DELETED | _DELETED_SELF | _ONLY_FOLDERS
_MOST_BYTES = 65_536
_library = ctypes.CDLL(None, use_errno=True)


class FolderChanges:
    """Watches the folders of several trees, each of which has a number.

    Where there is no inotify, or the system has no instance or watch left, a folder cannot be watched, and
    whoever asked looks at it. What a kernel says of one tree never concerns another.
    """

    def __init__(self) -> None:
        begin = getattr(_library, "inotify_init1", None)
        self._fd: int = -1 if begin is None else begin(os.O_NONBLOCK | os.O_CLOEXEC)
        self._close = weakref.finalize(self, os.close, self._fd) if self._fd >= 0 else None
        self._trees: dict[int, int] = {}

    def watch(self, tree: int, folder: str) -> bool:
        """Tell whether folders that come and go in ``folder`` are noticed from now on."""
        if self._fd < 0:
            return False
        number: int = _library.inotify_add_watch(self._fd, os.fsencode(folder), _WANTED)
        if number >= 0:
            self._trees[number] = tree
        return number >= 0

    def drain(self) -> set[int]:
        """Return the trees in which a folder came or went since the last call; all, if more happened than
        the kernel keeps."""
        changed: set[int] = set()
        while self._fd >= 0:
            try:
                events = os.read(self._fd, _MOST_BYTES)
            except BlockingIOError:  # no more of them
                break
            at = 0
            while at < len(events):
                number, mask, _, length = _EVENT.unpack_from(events, at)
                at += _EVENT.size + length
                if mask & _OVERFLOWED:
                    changed |= {*self._trees.values()}
                elif mask & _IGNORED:  # the folder is gone, and its watch with it
                    self._trees.pop(number, None)
                elif number in self._trees and mask & (_IS_FOLDER | _DELETED_SELF | _UNMOUNTED):
                    changed.add(self._trees[number])
        return changed

    def close(self) -> None:
        """Watch no more."""
        if self._close is not None:
            self._close()
        self._fd = -1
        self._trees.clear()
