"""A page in a real browser without a window: Chromium."""

import re
import struct
import subprocess
from pathlib import Path

from tests.support.servers.missing import program

_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=60000")


def dump(page: Path, profile: Path, *flags: str) -> str:
    """The document after its scripts have run; fails on what they wrote to the console."""
    done = _run(page, profile, "--enable-logging=stderr", "--dump-dom", *flags)
    said = [line for line in done.stderr.splitlines() if re.search(r"CONSOLE|Uncaught", line)]
    assert said == []
    return done.stdout


def screenshot(page: Path, profile: Path, out: Path, width: int, height: int, *flags: str) -> tuple[int, int]:
    """The page in a window of this size as a PNG; the picture's own size."""
    _run(page, profile, f"--screenshot={out}", f"--window-size={width},{height}", *flags)
    found = struct.unpack(">II", out.read_bytes()[16:24])
    return found[0], found[1]


def print_pages(page: Path, profile: Path, out: Path) -> int:
    """The page printed into a PDF; the number of its sheets."""
    _run(page, profile, f"--print-to-pdf={out}", "--no-pdf-header-footer")
    return len(re.findall(rb"/Type\s*/Page\b", out.read_bytes()))


def _run(page: Path, profile: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [program("chromium"), *_FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return done
