"""Work that a wish to stop cuts short."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


class StoppedError(Exception):
    """Asked to stop before the work was done."""


async def unless(stop: asyncio.Event, work: Awaitable[T]) -> T:
    """The result of ``work``; if ``stop`` comes first, ``work`` is cancelled and ``StoppedError`` raised."""
    task, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([task, stopping], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise StoppedError
        return await task
    finally:
        task.cancel()
        stopping.cancel()
