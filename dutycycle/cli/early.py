"""The first lines of a process: they import next to nothing, for what follows them takes a second or two."""

import os
import signal
from collections.abc import Collection
from typing import NoReturn

SERVICES = frozenset({"up", "collect", "stream", "sink"})
"""The commands that run until SIGTERM or SIGINT, which is success."""


def end_on_signals(arguments: Collection[str]) -> None:
    """Until there is anything to end in good order, SIGTERM and SIGINT end a service at once, as a success.

    Without an exception: raised inside of an import it would be ignored at times, and the process go on.
    """
    if SERVICES.isdisjoint(arguments):
        return

    def leave(*_: object) -> NoReturn:
        os._exit(0)

    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, leave)
