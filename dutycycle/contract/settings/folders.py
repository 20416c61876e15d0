"""Says where files are kept that belong to a user and no setting places elsewhere."""

import os
from collections.abc import Mapping
from pathlib import Path

from dutycycle.contract.errors import DutycycleError


def state_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``$XDG_STATE_HOME/dutycycle``; without an absolute one, it is below ``~/.local/state``.

    Raises ``DutycycleError`` where the user has no home directory, as in some containers.
    """
    state = Path(environ.get("XDG_STATE_HOME") or "")
    if not state.is_absolute():  # the XDG specification has a relative one ignored
        try:
            home = Path(environ.get("HOME") or Path.home())
        except RuntimeError as error:
            raise DutycycleError(
                "there is no home directory to keep files in: set HOME or XDG_STATE_HOME"
            ) from error
        state = home / ".local" / "state"
    return state / "dutycycle"
