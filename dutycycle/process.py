"""Processes that belong together: children that end with their parent, and signals that mean "stop"."""

import asyncio
import ctypes
import os
import signal
from collections.abc import Mapping

PARENT = "DUTYCYCLE_UP_PID"
"""Set for the children of ``dutycycle up``: its process id."""
RESTARTS = "DUTYCYCLE_UP_RESTARTS"
"""Set for the children of ``dutycycle up``: how often each was started again."""
_PR_SET_PDEATHSIG = 1


def die_with_parent(environ: Mapping[str, str]) -> None:
    """Ask the kernel for SIGTERM when ``dutycycle up`` ends, however it ends; Linux only."""
    if PARENT not in environ:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if str(os.getppid()) != environ[PARENT]:  # it ended before the kernel knew
        raise SystemExit(0)


def stop_on_signals() -> asyncio.Event:
    """An event that SIGTERM and SIGINT set, once each is a wish to end in good order."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    return stop
