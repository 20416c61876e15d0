"""What processes that answer over HTTP share: an address to listen at."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from dutycycle.contract.errors import SettingError
from dutycycle.telemetry.endpoint import Address


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
