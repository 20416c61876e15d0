"""Runs tasks that end together."""

import asyncio
from collections.abc import Awaitable


async def together(*work: Awaitable[None]) -> None:
    """Run all until one fails, or this is cancelled; then each is cancelled once, and waited for.

    ``asyncio.gather`` returns when the first of them has ended by its cancellation. What the others do at
    their end, such as to store what they know and to disconnect, would be cut off.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in work]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        failures = [
            task.exception() for task in tasks if not task.cancelled()
        ]  # else asyncio prints the others
    for failure in failures:
        if failure is not None:
            raise failure  # no TaskGroup: an error shall come out as it is
