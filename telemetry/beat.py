"""Sees from another thread that the event loop stands still."""

import asyncio
import time
from collections.abc import Callable

BOUND_S = 30.0
"""No single step of ours takes this long, not even a commit of ten thousand keys on a slow machine."""
_EVERY_S = 0.5


class Beat:
    """Beaten by a task in the event loop while ``run`` runs. ``stalled`` is a probe."""

    def __init__(self, bound_s: float = BOUND_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._bound_s = bound_s
        self._clock = clock
        self._last = clock()

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._last = self._clock()
            await asyncio.sleep(_EVERY_S)

    def stalled(self) -> str | None:
        """How long the loop has been standing still, if that is too long."""
        silent_s = self._clock() - self._last
        return f"has been standing still for {silent_s:.0f} s" if silent_s > self._bound_s else None
