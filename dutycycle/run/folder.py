"""Knows where a run leaves its report and its trace, writes the report there, and says so."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dutycycle.contract.errors import DutycycleError, NotInstalledError
from dutycycle.contract.settings.folders import state_folder
from dutycycle.process import print_remark

if TYPE_CHECKING:
    from dutycycle.report.page import Report

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


def say_where(folder: Path) -> None:
    """Print the paths of those files that are there."""
    for name, path in (("Report", folder / PAGE), ("Trace", folder / TRACE), ("Profile", folder / PROFILE)):
        if path.exists():
            print_remark(f"  {name:<22} {path}")


def conclude(make: Callable[[], "Report"], folder: Path) -> str | None:
    """Make a report, say its figures and write it into ``folder``. Return why there is none, which is no
    failure of the run."""
    try:
        # Here, not above: they take a second to import, and the run need not wait for it.
        from dutycycle.report.build import write_report
        from dutycycle.run.summary import figures_of

        report = make()
        for line in figures_of(report):
            print_remark(line)
        write_report(report, folder / PAGE)
    except ModuleNotFoundError as error:
        return f"no report: {NotInstalledError(error.name or str(error))}"
    except (DutycycleError, OSError) as error:
        return f"no report: {error}"
    return None
