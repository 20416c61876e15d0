"""The clocks of the collector loop, so that tests can bring their own."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What time it is, and how to wait."""

    def monotonic_s(self) -> float:
        """Seconds that never step back."""
        ...

    def wall_ms(self) -> int:
        """Unix milliseconds; may step when the clock is set."""
        ...

    async def sleep_until(self, due_s: float, stop: asyncio.Event) -> None:
        """Return when ``monotonic_s`` has reached ``due_s``, or at once when ``stop`` is set."""
        ...


class RealClock:
    """This machine's clocks."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    async def sleep_until(self, due_s: float, stop: asyncio.Event) -> None:
        while (left_s := due_s - self.monotonic_s()) > 0 and not stop.is_set():
            try:
                await asyncio.wait_for(stop.wait(), left_s)
            except TimeoutError:
                continue
