"""Shows a state until it ends: a screen on a terminal, lines elsewhere."""

import asyncio
import logging
import sys
from collections import deque

from dutycycle.live.lines import LinePrinter, say
from dutycycle.live.source import Source
from dutycycle.process import stopped_within

_EVERY_S = 0.5
_LOG_LINES = 50


async def show(source: Source, ended: asyncio.Event) -> None:
    """Show until ``ended``, which is later than ``stop``: so long keys come here, and not to the shell."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        from dutycycle.live.screen.app import Screen  # a quarter of a second: lines need nothing of it

        screen = Screen(source)

        async def leave() -> None:
            await ended.wait()
            screen.leave()

        leaving = asyncio.create_task(leave())
        # Log lines would be written across the screen: the last ones come after it, with ``--verbose``.
        root = logging.getLogger()
        before, held = root.handlers[:], _Held()
        root.handlers[:] = [held]
        try:
            await screen.run_async()
        finally:
            root.handlers[:] = before
            for record in held.records if root.isEnabledFor(logging.INFO) else ():
                root.handle(record)
        source.stop.set()
        await leaving
        return
    say(f"{source.title}: {source.place}; Ctrl-C stops")
    lines = LinePrinter(source.state, source.degraded)
    while not ended.is_set():
        lines.show()
        await stopped_within(ended, _EVERY_S)
    lines.show()


class _Held(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: deque[logging.LogRecord] = deque(maxlen=_LOG_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)
