"""Where the spool is."""

from collections.abc import Mapping
from pathlib import Path

from collectors.publish.spool import Spool, SpoolBusyError
from contract.settings.settings import Settings
from contract.topics import DEFAULT_PREFIX
from telemetry.events import SPOOL_DROPPED, Telemetry

EMBEDDED = "DUTYCYCLE_UP_EMBEDDED"
"""Set for a collector whose broker came with it, in memory, and is gone when it ends."""
_MOST_COLLECTORS = 9


def open_spool(settings: Settings, telemetry: Telemetry, environ: Mapping[str, str]) -> Spool:
    """The spool in ``DUTYCYCLE_SPOOL``, or in a folder of this user's state that no other collector uses.

    It is one of the node and the topics' prefix: what waits for one prefix never goes to another. A broker
    that has moved gets what waits for it.

    Raises ``SpoolError`` naming the folder and what to do.
    """
    if settings.spool is not None:
        spool = Spool(Path(settings.spool), settings.spool_bytes)
    else:
        spool = _first_free(default_folder(environ) / _name(settings, environ), settings.spool_bytes)
    if spool.was_damaged:
        telemetry.emit(SPOOL_DROPPED, f"{spool.folder} was damaged, and is put aside as spool.damaged")
    return spool


def default_folder(environ: Mapping[str, str]) -> Path:
    """``$XDG_STATE_HOME/dutycycle/spool``; without an absolute one, below ``~/.local/state``."""
    state = Path(environ.get("XDG_STATE_HOME") or "")
    if not state.is_absolute():  # the XDG specification has a relative one ignored
        home = environ.get("HOME")
        state = (Path(home) if home else Path.home()) / ".local" / "state"
    return state / "dutycycle" / "spool"


def _name(settings: Settings, environ: Mapping[str, str]) -> str:
    # Neither a node nor a prefix may have an "@" in its name.
    prefix = "" if settings.topic_prefix == DEFAULT_PREFIX else f"@{settings.topic_prefix}"
    return f"{settings.node}{prefix}{'@@embedded' if EMBEDDED in environ else ''}"


def _first_free(folder: Path, most_bytes: int) -> Spool:
    # Several may run on one machine, each with a broker of its own (`dutycycle up` in two terminals).
    for number in range(2, _MOST_COLLECTORS + 1):
        try:
            return Spool(folder, most_bytes)
        except SpoolBusyError:
            folder = folder.with_name(f"{folder.name.partition('~')[0]}~{number}")
    return Spool(folder, most_bytes)
