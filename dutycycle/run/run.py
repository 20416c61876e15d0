"""Runs ``dutycycle run``: start, measure, wait, say."""

import resource
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from dutycycle.callbacks.reporter import SOCKET
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.groups import Settings
from dutycycle.run.command import CannotStartError, Command
from dutycycle.run.folder import TRACE, conclude, run_folder, say, say_where
from dutycycle.run.measuring import Measuring
from dutycycle.run.nsys import Nsys

if TYPE_CHECKING:
    from dutycycle.report.page import Report


def run_command(
    arguments: Sequence[str],
    settings: Settings,
    out: Path | None,
    *,
    profiled: bool = False,
    title: str | None = None,
) -> int:
    """Run it to its end; its exit status. ``profiled``: under Nsight Systems; ``title``: of the report.

    Raises ``DutycycleError`` before it was started.
    """
    nsys = Nsys("--nsys", "leave --nsys out") if profiled else None
    folder = run_folder(Path(arguments[0]).name, out)
    with TemporaryDirectory(prefix="dutycycle-") as sockets:
        began, own_before_s, steps = time.monotonic(), _own_cpu_s(), Path(sockets) / "steps.sock"
        variables = {SOCKET: str(steps)}
        try:
            typed = arguments if nsys is None else nsys.wrapped(arguments, folder)
            command = Command(typed, variables)
        except CannotStartError as error:
            folder.rmdir()
            say(f"dutycycle: {error}")
            return error.status
        measuring = Measuring(arguments, command, settings, folder / TRACE, steps)
        measuring.start()
        ended = command.wait()
        lasted, own_s = time.monotonic() - began, _own_cpu_s() - own_before_s
        measuring.stop(ended)
    # Whatever goes wrong from now on is said, and changes no status.
    from dutycycle.run.summary import ended_words, lines_of, notes_of

    shown = " ".join(shlex.join(arguments).split())  # a script after -c has lines
    for line in lines_of(f"dutycycle: {shown[:100]}", ended, lasted, own_s):
        say(line)
    conditions = list(measuring.telemetry.conditions.values())
    errors = list(measuring.errors)
    profiles = []
    if nsys is not None:
        try:
            profiles.append(nsys.profile(folder))
        except DutycycleError as error:
            errors.append(f"the profile: {error}")
    if measuring.gathered is not None:
        gathered = measuring.gathered

        def make() -> "Report":
            from dutycycle.report.build import report_of

            return report_of(
                gathered, settings, TRACE, pod=measuring.pod.uid, profiles=profiles, title=title,
                ended=ended_words(ended),
            )  # fmt: skip

        if failure := conclude(make, folder):
            errors.append(failure)
    for line in notes_of(errors, conditions):
        say(line)
    say_where(folder)
    return ended.status


def _own_cpu_s() -> float:
    """Return the CPU seconds of this process so far, without its children."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
