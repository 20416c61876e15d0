"""Runs a command under Nsight Systems: how it is called, and what its report says."""

import shutil
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dutycycle.contract.errors import DutycycleError
from dutycycle.run.command import NOT_FOUND, CannotStartError
from dutycycle.run.folder import PROFILE

if TYPE_CHECKING:
    from dutycycle.report.profiled import Profile

_PROFILE = ("profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none")
"""What is read of it, and no more: the rest costs time and space."""


class Nsys:
    """Wraps a command in the ``nsys`` of PATH, which leaves ``nsys.nsys-rep`` in ``folder``."""

    def __init__(self, wanted: str, otherwise: str) -> None:
        """Find it. Raises ``DutycycleError``: what is ``wanted`` needs it, and what to do ``otherwise``."""
        program = shutil.which("nsys")
        if program is None:
            raise DutycycleError(
                f"{wanted}: nsys is not on PATH: install NVIDIA Nsight Systems, or {otherwise}"
            )
        self._program = program

    def wrapped(self, arguments: Sequence[str], folder: Path) -> list[str]:
        """Return the command that runs ``arguments`` under it. Raises ``CannotStartError``."""
        if shutil.which(arguments[0]) is None:
            raise CannotStartError(f"{arguments[0]}: command not found", NOT_FOUND)
        return [self._program, *_PROFILE, "--output", str(folder / "nsys"), *arguments]

    def profile(self, folder: Path) -> "Profile":
        """Return what it has seen; the export stays in ``folder``. Raises ``DutycycleError``."""
        from dutycycle.profile.profile import read  # here, not above: the command need not wait for it

        report = folder / PROFILE
        if not report.exists():
            raise DutycycleError(f"nsys has left no {report}")
        return read(self.exported(report, folder))

    def exported(self, report: Path, folder: Path) -> Path:
        """Return the SQLite export of a report, written into ``folder``. Raises ``DutycycleError``."""
        export = folder / f"{report.stem}.sqlite"
        done = subprocess.run(  # noqa: S603 - the nsys of PATH, as for the command
            [self._program, "export", "--type", "sqlite", "--output", str(export), str(report)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, ()),  # Ctrl-C ends it
            check=False,
        )
        if done.returncode or not export.exists():
            lines = done.stderr.decode(errors="replace").strip().splitlines()
            reason = lines[-1][:200] if lines else f"status {done.returncode}"
            raise DutycycleError(f"nsys could not export {report}: {reason}")
        return export
