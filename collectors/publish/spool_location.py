"""Says where the spool is."""

from collections.abc import Mapping
from pathlib import Path

from collectors.publish.spool import Spool
from dutycycle.contract.settings.folders import state_folder
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
    folder = (
        Path(settings.spool)
        if settings.spool is not None
        else state_folder(environ) / "spool" / _name(settings)
    )
    spool = Spool(folder, settings.spool_bytes)
    if spool.was_damaged:
        telemetry.emit(SPOOL_DROPPED, f"{spool.folder} was damaged, and is put aside as spool.damaged")
    return spool


def _name(settings: Settings) -> str:
    # Neither a node nor a prefix may have an "@" in its name.
    return settings.node + ("" if settings.topic_prefix == DEFAULT_PREFIX else f"@{settings.topic_prefix}")
