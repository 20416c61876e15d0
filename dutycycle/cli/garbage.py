"""Says how often a long-lived process looks for garbage, where its threads take memory from, and what it
gives back."""

import ctypes
import gc
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_M_ARENA_MAX = -8
_UNWRITTEN_LLVM = re.compile(
    rb"^(\w+)-(\w+) r-.*/libllvmlite\..*\n"
    rb"(?:\w+:.*\n)*?Anonymous: +0 kB\n(?:\w+:.*\n)*?Swap: +0 kB$",
    re.MULTILINE,
)
"""A mapping in Linux's ``smaps`` of LLVM's file that is only read, with no written page in memory or swapped
out: where it begins and ends."""
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


def release_llvm() -> None:
    """Give back the pages of LLVM's file. It has linked the compiled loops when they were imported, and 45 MB
    of it stay resident in a process that needs them no more; should it, they come from the file again.

    Systems other than Linux do not say which pages these are: they stay.
    """
    try:
        mappings = Path("/proc/self/smaps").read_bytes()
    except OSError:
        return
    libc = ctypes.CDLL(None)
    for begin, end in _UNWRITTEN_LLVM.findall(mappings):
        size = int(end, 16) - int(begin, 16)
        libc.madvise(ctypes.c_void_p(int(begin, 16)), ctypes.c_size_t(size), mmap.MADV_DONTNEED)
