"""One collector in a thread of its own: nothing that it does can hold up the others."""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any

from collectors.base import Collector, Outgoing, Tick

Outcome = Sequence[Outgoing] | Exception
Answer = Callable[[Any, Tick, Outcome], None]


class Worker:
    """Asks its collector at most once at a time; ``answer`` is called in the event loop.

    The thread is a daemon: one that hangs in a driver for ever does not keep the process from ending.
    """

    def __init__(self, collector: Collector, answer: Answer) -> None:
        self.name = collector.name
        self.asked: Tick | None = None
        """The tick that the collector is busy with, None when it is idle."""
        self._collector = collector
        self._answer = answer
        self._loop = asyncio.get_running_loop()
        self._ticks: queue.SimpleQueue[Tick | None] = queue.SimpleQueue()
        self._closing_error: Exception | None = None
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=f"collector {self.name}", daemon=True)
        self._thread.start()

    def ask(self, tick: Tick) -> None:
        """Begin to measure. Only for an idle worker."""
        self.asked = tick
        self._ticks.put(tick)

    async def close(self, most_s: float) -> Exception | None:
        """Let the collector finish its tick and close; what went wrong with that, or None."""
        self._ticks.put(None)
        try:
            async with asyncio.timeout(most_s):
                await self._ended.wait()
        except TimeoutError:
            return TimeoutError(f"did not end within {most_s:g} s, and is left behind")
        return self._closing_error

    def _run(self) -> None:
        while (tick := self._ticks.get()) is not None:
            try:
                outcome: Outcome = self._collector.collect(tick)
            except Exception as error:  # noqa: BLE001 - the runner tells it, and the collector goes on
                outcome = error
            self._tell(self._answered, tick, outcome)
        try:
            self._collector.close()
        except Exception as error:  # noqa: BLE001 - the runner tells it
            self._closing_error = error
        self._tell(self._ended.set)

    def _tell(self, call: Callable[..., None], *values: object) -> None:
        # Whoever was left behind may come back when nobody listens any more.
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *values)

    def _answered(self, tick: Tick, outcome: Outcome) -> None:
        self.asked = None
        self._answer(self, tick, outcome)
