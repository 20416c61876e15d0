"""Says how often a long-lived process looks for garbage, where its threads take memory from, and what it
gives back."""

import ctypes
import gc
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_M_ARENA_MAX, _MADV_DONTNEED = -8, 4
_PAGES = Path("/proc/self/smaps")
_READ_ONLY = re.compile(
    r"^([0-9a-f]+)-([0-9a-f]+) r-.p .* (/.*)\n(?:[A-Z].*\n)*?Anonymous: +([0-9]+) kB", re.MULTILINE
)
"""Of memory that is a file's, and that this process may only read: begin, end, file, kB written before."""
_YOUNG, _MIDDLE, _FULL = 5_000, 10, 140
"""Thresholds of Python's collector. A sample of eight GPUs makes some hundred objects that are gone with it:
with Python's own 700 as the first threshold, looking for cycles among them is some 3 % of a replay. A full
collection goes over all states, and records wait for it: 0.2 s with 300 nodes, several times a minute. It
finds little, as states hold no cycles. So it comes once in 140 collections of the middle generation, and not
in ten."""


def collect_rarely() -> None:
    """Set the thresholds of the collector for the rest of the process."""
    gc.set_threshold(_YOUNG, _MIDDLE, _FULL)


@contextmanager
def importing() -> Iterator[None]:
    """Look for no garbage while modules are imported, a sixth of whose time that takes: there is none. Nor
    later in what was imported: a full collection goes over all of it, which holds up a tick by 20 ms."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def share_heap() -> None:
    """Let all threads that are started from now on take memory from one heap: what the consumer's thread
    frees is of use to the others then. Other C libraries than glibc have no such function."""
    if (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_ARENA_MAX, 1)


def drop_pages(library: str) -> None:
    """Give the system back the pages of a library that has done its work, as ``libllvmlite`` has once all is
    compiled: 45 MB of it are mapped by then. What is asked for after all is mapped again, from the file; what
    was written to, as addresses are, stays. Only Linux says which pages these are."""
    if not _PAGES.exists():
        return
    madvise = ctypes.CDLL(None).madvise
    for begin, end, file, written_kb in _READ_ONLY.findall(_PAGES.read_text(encoding="utf-8")):
        if Path(file).name.startswith(library) and written_kb == "0":
            first = int(begin, 16)
            madvise(ctypes.c_void_p(first), ctypes.c_size_t(int(end, 16) - first), _MADV_DONTNEED)
