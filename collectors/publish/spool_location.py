"""Says where the spool is."""

from collections.abc import Mapping
from pathlib import Path

from collectors.publish.spool import Spool
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import DEFAULT_PREFIX
from dutycycle.telemetry.events import SPOOL_DROPPED, Telemetry


def open_spool(settings: Settings, telemetry: Telemetry, environ: Mapping[str, str]) -> Spool:
    """Open the spool in ``DUTYCYCLE_SPOOL``, or in a folder of this user's state, one for each node and
    prefix.

    Its lock refuses a second collector on this machine. Records that wait for one topic prefix never go to
    another; a broker that moved to another address gets what waits for it.

    Raises ``SpoolBusyError`` while another collector runs, ``SpoolError`` for a folder that cannot be used.
    """
    folder = Path(settings.spool) if settings.spool is not None else default_folder(environ) / _name(settings)
    spool = Spool(folder, settings.spool_bytes)
    if spool.was_damaged:
        telemetry.emit(SPOOL_DROPPED, f"{spool.folder} was damaged, and is put aside as spool.damaged")
    return spool


def default_folder(environ: Mapping[str, str]) -> Path:
    """Return ``$XDG_STATE_HOME/dutycycle/spool``; without an absolute one, below ``~/.local/state``."""
    state = Path(environ.get("XDG_STATE_HOME") or "")
    if not state.is_absolute():  # the XDG specification has a relative one ignored
        home = environ.get("HOME")
        state = (Path(home) if home else Path.home()) / ".local" / "state"
    return state / "dutycycle" / "spool"


def _name(settings: Settings) -> str:
    # Neither a node nor a prefix may have an "@" in its name.
    return settings.node + ("" if settings.topic_prefix == DEFAULT_PREFIX else f"@{settings.topic_prefix}")
