"""What a long-lived process gives back."""

import ctypes
import re
from pathlib import Path

import numpy as np

from dutycycle.cli.garbage import drop_pages
from streams.operators.cycles.locks import falls

LIBRARY = "libllvmlite"
PARTS = re.compile(rf"(/.*/{LIBRARY}.*)\n(?:[A-Z].*\n)*?Rss: +(\d+) kB")


def resident() -> tuple[str, int]:
    """The library's file, and how many kB of it are in memory."""
    parts = PARTS.findall(Path("/proc/self/smaps").read_text())
    return parts[0][0], sum(int(resident_kb) for _, resident_kb in parts)


def test_a_library_that_has_done_its_work_is_dropped_and_comes_back_where_it_is_called() -> None:
    file, before_kb = resident()
    drop_pages(LIBRARY)
    assert resident()[1] < before_kb / 2
    assert [falls(np.array([1.0, 0.9, 0.1, gain])) for gain in (0.1, 0.9)] == [True, False], "compiled loops"
    assert ctypes.CDLL(file).LLVMPY_GetVersionInfo() > 0, "the library itself"


def test_what_is_not_loaded_has_nothing_to_drop() -> None:
    before = resident()
    drop_pages("libof-nobody")
    assert resident()[1] >= before[1]
