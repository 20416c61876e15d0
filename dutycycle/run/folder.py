"""Knows where a run leaves its report and its trace, and how it says so."""

import sys
import time
from pathlib import Path

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.folders import state_folder

TRACE, PAGE, PROFILE = "trace.jsonl.zst", "report.html", "nsys.nsys-rep"


def run_folder(name: str, out: Path | None) -> Path:
    """Make the folder of a run: ``out``, or one that is named by the time and ``name``; empty. Raises
    ``DutycycleError``."""
    if out is None:
        stamp = time.strftime("%Y-%m-%dT%H-%M-%S", time.gmtime())
        out = state_folder() / "runs" / f"{stamp}-{name}"
        number = 1
        while out.exists():  # another one within the same second
            number += 1
            out = out.with_name(f"{stamp}-{name}-{number}")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise DutycycleError(f"--out {out}: is not empty; give another folder")
    except OSError as error:
        raise DutycycleError(f"--out {out}: {error.strerror}") from error
    return out


def say(line: str) -> None:
    """Print a line for people to stderr, beside what the command or the job itself writes."""
    print(line, file=sys.stderr, flush=True)  # noqa: T201


def say_where(folder: Path) -> None:
    """Print the paths of those files that are there."""
    for name, path in (("Report", folder / PAGE), ("Trace", folder / TRACE), ("Profile", folder / PROFILE)):
        if path.exists():
            say(f"  {name:<22} {path}")
