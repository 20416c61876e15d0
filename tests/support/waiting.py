"""Waiting for what has to become true, and a clock that a test moves by hand."""

import asyncio
import time
from collections.abc import Callable


class Clock:
    """Stands still until ``now_s`` is changed."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


async def until(
    condition: Callable[[], object], deadline_s: float = 240.0, *,
    what: Callable[[], object] = lambda: "it did not come true", working: "asyncio.Task[None] | None" = None,
) -> None:  # fmt: skip
    """Return as soon as ``condition()`` holds; fail past the deadline, or when ``working`` has ended."""
    end = time.monotonic() + deadline_s
    while not condition():
        if working is not None and working.done():
            working.result()
            raise AssertionError(f"the task has ended before: {what()}")
        assert time.monotonic() < end, what()
        await asyncio.sleep(0.005)
