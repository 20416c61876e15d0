"""Runs the command to its end as a user would, with nothing of the outside's settings."""

import os
import subprocess
from pathlib import Path

from dutycycle.contract.settings.groups import PREFIX
from tests.support.processes.warm import command


def dutycycle(*arguments: str | Path, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run ``dutycycle``; it has to end with ``status``, and never with a traceback."""
    done = subprocess.run(
        [*command(), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=240,
        env={name: value for name, value in os.environ.items() if not name.startswith(PREFIX)},
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done
