"""``dutycycle run``: start, measure, wait, say."""

import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from contract.errors import DutycycleError
from contract.settings.groups import Settings
from dutycycle.run.command import CannotStartError, Command, Ended, own_cpu_s
from dutycycle.run.folder import PAGE, TRACE, run_folder
from dutycycle.run.measuring import Measuring
from dutycycle.run.nsys import REPORT, Nsys

if TYPE_CHECKING:
    from dutycycle.profile.profile import Profile


def run_command(
    arguments: Sequence[str], settings: Settings, out: Path | None, *, profiled: bool = False
) -> int:
    """Run it to its end; its exit status. ``profiled``: under Nsight Systems.

    Raises ``DutycycleError`` before it was started.
    """
    nsys = Nsys() if profiled else None
    folder = run_folder(Path(arguments[0]).name, out)
    began = time.monotonic()
    try:
        command = Command(arguments) if nsys is None else Command(nsys.wrapped(arguments, folder))
    except CannotStartError as error:
        folder.rmdir()
        _say(f"dutycycle: {error}")
        return error.status
    measuring = Measuring(arguments, command, settings, folder / TRACE)
    measuring.start()
    ended = command.wait()
    lasted, own_s = time.monotonic() - began, own_cpu_s()
    measuring.stop(ended)
    _conclude(arguments, ended, lasted, own_s, measuring, settings, folder, nsys)
    return ended.status


def _conclude(
    arguments: Sequence[str], ended: Ended, lasted: float, own_s: float, measuring: Measuring,
    settings: Settings, folder: Path, nsys: Nsys | None,
) -> None:  # fmt: skip
    """The command has ended: whatever goes wrong now is said, and changes no status."""
    from dutycycle.run.summary import figures_of, lines_of, notes_of

    typed = " ".join(shlex.join(arguments).split())  # a script after -c has lines
    for line in lines_of(f"dutycycle: {typed[:100]}", ended, lasted, own_s):
        _say(line)
    conditions = list(measuring.telemetry.conditions.values())
    errors = list(measuring.errors)
    profiles = list(_profiles(nsys, folder, errors)) if nsys else []
    try:
        from dutycycle.report.build import report_of, write_report

        if measuring.gathered is not None:
            report = report_of(measuring.gathered, settings, TRACE, pod=measuring.pod.uid, profiles=profiles)
            for line in figures_of(report):
                _say(line)
            write_report(report, folder / PAGE)
    except ModuleNotFoundError as error:
        errors.append(
            f"no report: the package {error.name} is not installed: pip install 'dutycycle[report]'"
        )
    except DutycycleError as error:
        errors.append(f"no report: {error}")
    for line in notes_of(errors, conditions):
        _say(line)
    for name, path in (("Report", folder / PAGE), ("Trace", folder / TRACE), ("Profile", folder / REPORT)):
        if path.exists():
            _say(f"  {name:<22} {path}")


def _profiles(nsys: Nsys, folder: Path, errors: list[str]) -> Iterator["Profile"]:
    try:
        yield nsys.profile(folder)
    except DutycycleError as error:
        errors.append(f"the profile: {error}")


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201
