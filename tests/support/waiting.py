"""Waiting for what has to become true, and a clock that a test moves by hand."""

import asyncio
import inspect
import time
from collections.abc import Callable

DEADLINE_S = 240.0
"""What comes in seconds takes many times that on a busy machine."""


class Clock:
    """Stands still until ``now_s`` is changed."""

    def __init__(self, now_s: float = 0.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def _nothing() -> object:
    return "what does not come true"


async def until(
    is_so: Callable[[], object], what: Callable[[], object] = _nothing, *,
    working: "asyncio.Task[None] | None" = None,
) -> None:  # fmt: skip
    """Return once ``is_so``; fail and say ``what`` was waited for if it never is, or ``working`` ends.

    ``is_so`` may be asynchronous. Looking takes a quarter of the time at most: who looks all the time slows
    what they wait for.
    """
    deadline = time.monotonic() + DEADLINE_S
    while True:
        began = time.monotonic()
        found = is_so()
        if await found if inspect.isawaitable(found) else found:
            return
        if working is not None and working.done():
            working.result()
            raise AssertionError(f"the task has ended before: {what()}")
        assert began < deadline, f"waited {DEADLINE_S:g} s for {what()}"
        await asyncio.sleep(max(0.005, 3 * (time.monotonic() - began)))


def wait_until(
    is_so: Callable[[], object], what: Callable[[], object] = _nothing, seconds: float = DEADLINE_S, *,
    pause_s: float = 0.2, meanwhile: Callable[[], object] = _nothing,
) -> None:  # fmt: skip
    """Return once ``is_so``, as ``until`` does, for tests that are not asynchronous.

    ``meanwhile`` is called after each look in vain.
    """
    deadline = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        if is_so():
            return
        assert began < deadline, f"waited {seconds:g} s for {what()}"
        time.sleep(max(pause_s, 3 * (time.monotonic() - began)))
        meanwhile()
