"""What processes that answer over HTTP share: tasks that end together, and an address to listen at."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from dutycycle.contract.errors import SettingError
from dutycycle.telemetry.endpoint import Address


async def together(*work: Coroutine[Any, Any, None]) -> None:
    """Run all until one fails, or this is cancelled; then none goes on."""
    tasks = [asyncio.create_task(one) for one in work]
    try:
        await asyncio.gather(*tasks)  # no TaskGroup: an error shall come out as it is
    finally:
        for one in tasks:
            one.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def listening(
    runner: web.AppRunner, address: Address, tls: ssl.SSLContext | None, setting: str
) -> AsyncIterator[Address]:
    """Listen at ``address``, which ``setting`` names; where, with the port that it got."""
    site = web.TCPSite(runner, address.host, address.port, ssl_context=tls)
    try:
        await site.start()
    except OSError as error:
        raise SettingError(f"{setting}={address}: {error.strerror}: give another host:port") from error
    try:
        yield Address(address.host, runner.addresses[-1][1])
    finally:
        await site.stop()
