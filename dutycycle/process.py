"""Processes: signals that mean "stop", from the first moment on, and children that end with their parent.

Imports next to nothing: what follows the first lines of a process takes a second or two to import.
"""

import os
import signal
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import asyncio

SERVICES = frozenset({"up", "top", "collect", "stream", "sink", "adapter", "extender", "webhook"})
"""The commands that run until SIGTERM or SIGINT, which is success."""
PARENT_VARIABLE = "DUTYCYCLE_UP_PID"
"""Set for the children of ``dutycycle up``: its process id."""
RESTARTS_VARIABLE = "DUTYCYCLE_UP_RESTARTS"
"""Set for the children of ``dutycycle up``: how often each was started again."""
NOT_BEGUN = 128 + signal.SIGTERM
"""How a child of ``dutycycle up`` ends that was asked to before its work began."""
_PR_SET_PDEATHSIG = 1


def command_name(arguments: Iterable[str]) -> str:
    """The sub-command that is asked for: the first word that is no flag; empty for none."""
    return next((one for one in arguments if not one.startswith("-")), "")


def end_on_signals(arguments: Iterable[str]) -> None:
    """Until there is anything to end in good order, SIGTERM and SIGINT end a service at once, as a success
    (a child of ``dutycycle up`` with ``NOT_BEGUN``).

    Without an exception: raised inside of an import it would be ignored at times, and the process go on.
    """
    if command_name(arguments) not in SERVICES:
        return

    def leave(*_: object) -> NoReturn:
        os._exit(NOT_BEGUN if PARENT_VARIABLE in os.environ else 0)

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, leave)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Deleted at the end, also by SIGTERM: meanwhile that ends the process as an exception would."""
    from tempfile import TemporaryDirectory

    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    try:
        with TemporaryDirectory(prefix="dutycycle-") as folder:
            yield Path(folder)
    finally:
        signal.signal(signal.SIGTERM, before)


def die_with_parent(environ: Mapping[str, str]) -> None:
    """Ask the kernel for SIGTERM when ``dutycycle up`` ends, however it ends; Linux only."""
    if PARENT_VARIABLE not in environ:
        return
    import ctypes

    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if str(os.getppid()) != environ[PARENT_VARIABLE]:  # it ended before the kernel knew
        raise SystemExit(0)


async def stopped_within(stop: "asyncio.Event", seconds: float | None) -> bool:
    """Wait for ``stop``, ``seconds`` at most; whether it came."""
    import asyncio

    try:
        return await asyncio.wait_for(stop.wait(), seconds)
    except TimeoutError:
        return False


def stop_on_signals() -> "asyncio.Event":
    """An event that SIGTERM and SIGINT set, once each is a wish to end in good order."""
    import asyncio

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    return stop
