"""Says where peak records are kept if nobody says otherwise. Without SQLAlchemy, which takes a while to
import."""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from dutycycle.contract.errors import DutycycleError


def default_records_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``$XDG_STATE_HOME/dutycycle/records.db``; without a (absolute) one, below ``~/.local/state``."""
    state = Path(environ.get("XDG_STATE_HOME") or "")
    if not state.is_absolute():  # the XDG specification says that a relative one is to be ignored
        state = _home(environ) / ".local" / "state"
    return state / "dutycycle" / "records.db"


def default_records_url(environ: Mapping[str, str] = os.environ) -> str:
    """Return the SQLite file in the user's state directory, as an SQLAlchemy URL."""
    return f"sqlite:///{quote(str(default_records_path(environ)), safe='/ +')}"


def _home(environ: Mapping[str, str]) -> Path:
    if home := environ.get("HOME"):
        return Path(home)
    try:
        return Path.home()
    except RuntimeError as error:
        raise DutycycleError(
            "there is no home directory to keep records in: set DUTYCYCLE_RECORDS"
        ) from error
