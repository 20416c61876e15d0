"""Reads kernel files again at every tick: they are kept open, because opening costs six times the reading."""

import os
import resource
from pathlib import Path

from dutycycle.contract.units import MAX_INTEGER

_SMALL = 4096
_ENOUGH = 16_384
_HUGE = 1_048_576


class FilePool:
    """Bounds how many files may be kept open. Past ``limit`` a file is opened and closed for each reading."""

    def __init__(self, limit: int | None = None) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self.free = limit if limit is not None else max(0, soft // 2)

    def file(self, path: str) -> "CounterFile":
        """Return a file of this pool; nothing is opened before it is read."""
        return CounterFile(path, self)

    def file_of_records(self, path: str) -> "RecordsFile":
        """Return a file of this pool that has a line for each of many things."""
        return RecordsFile(path, self)


class CounterFile:
    """Reads one small file of the kernel's, such as ``cpu.stat``. ``read`` answers None when it is not
    there."""

    __slots__ = ("_fd", "_path", "_pool", "opened")

    def __init__(self, path: str, pool: FilePool) -> None:
        self._path = path
        self._pool = pool
        self._fd = -1
        self.opened = 0
        """How often it was opened: once, as long as it is the same file and may be kept open."""

    def read(self) -> bytes | None:
        """Return what the file says now; None when it is gone, not permitted, or switched off."""
        if self._fd >= 0:
            try:
                data = os.pread(self._fd, _ENOUGH, 0)  # not by a call more: a node has hundreds of these
                return data if len(data) < _ENOUGH else os.pread(self._fd, _HUGE, 0)
            except OSError:  # ENODEV: the cgroup was removed; its path may belong to a new one already
                self.close()
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        self.opened += 1
        try:
            data = os.pread(fd, _ENOUGH, 0)
            return data if len(data) < _ENOUGH else os.pread(fd, _HUGE, 0)
        except OSError:
            return None
        finally:
            if self._pool.free > 0:
                self._pool.free -= 1
                self._fd = fd
            else:
                os.close(fd)

    def close(self) -> None:
        """Give the open file back to the pool, if it was kept."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._pool.free += 1


class RecordsFile(CounterFile):
    """Reads a file that the kernel writes record by record, such as ``net/dev``: a call gives those that fit
    in 4 kB, which are not all of a node with many interfaces or disks."""

    __slots__ = ()

    def read(self) -> bytes | None:
        """Return what the file says now, to its end; None when it is not there, or not permitted."""
        data = super().read()
        if data is None:
            return None
        try:
            if self._fd < 0:
                return Path(self._path).read_bytes()
            while part := os.pread(self._fd, _HUGE, len(data)):
                data += part
        except OSError:
            return None
        return data


def read_small(path: str) -> bytes:
    """Read the first 4 kB of a file of the kernel's that is read once. Raises ``OSError``."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, _SMALL)
    finally:
        os.close(fd)


def number_in(text: bytes | str | None) -> int | None:
    """Return the one number that a file says; None when it is not there or says something else, such as
    "max", and for what no counter of the kernel's is: less than 0, or more than a record may carry."""
    try:
        number = int(text or b"")
    except ValueError:
        return None
    return number if 0 <= number <= MAX_INTEGER else None


def field_of(text: bytes, name: bytes) -> int | None:
    """Return the number after ``name`` in lines of "name number"; None when there is no such line, or no
    number in it."""
    line = name + b" "
    at = 0
    if not text.startswith(line):
        at = text.find(b"\n" + line) + 1
        if not at:
            return None
    begin = at + len(line)
    end = text.find(b"\n", begin)
    return number_in(text[begin:end] if end >= 0 else text[begin:])
