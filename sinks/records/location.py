"""Says where peak records are kept if nobody says otherwise. Without SQLAlchemy, which takes a while to
import."""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from dutycycle.contract.settings.folders import state_folder


def default_records_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Return ``records.db`` in the folder of this user's state (``state_folder``)."""
    return state_folder(environ) / "records.db"


def default_records_url(environ: Mapping[str, str] = os.environ) -> str:
    """Return the SQLite file in the user's state directory, as an SQLAlchemy URL."""
    return f"sqlite:///{quote(str(default_records_path(environ)), safe='/ +')}"
