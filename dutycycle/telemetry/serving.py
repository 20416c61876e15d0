"""Lets a process answer for as long as it lives, whatever it is waiting for."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.certificate import Certificate
from dutycycle.telemetry.endpoint import Address, address_of
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import BUILD_INFO, HEALTHY, READY, release
from dutycycle.telemetry.server import HttpPages, ListenError, Server

_LOG = logging.getLogger("dutycycle.health")
SERVING = "serves http://"
SERVING_TLS = "serves https://"
"""In the one line that says where, followed by ``host:port``; the second with a certificate."""


@asynccontextmanager
async def serving(
    settings: Settings, process: str, telemetry: Telemetry, *, elsewhere: bool = False
) -> AsyncIterator[Address | None]:
    """Answer for ``process`` and watch over it until the block ends; where, is logged in one line.

    ``elsewhere``: if the setting's port is taken, any free one will do. Raises ``SettingError`` if it cannot
    be had.
    """
    address = address_of(settings.listen, process)
    telemetry.status.alive["event loop"] = telemetry.stall_detector.loop_stalled
    telemetry.metrics.gauge(BUILD_INFO, version=release()).set(1)
    telemetry.metrics.read(HEALTHY, lambda: float(telemetry.status.liveness_error() is None))
    telemetry.metrics.read(READY, lambda: float(telemetry.status.readiness_error() is None))
    server = None
    try:
        if address is not None:
            # The level of the line that says that another port is used; None: no other will do.
            fallback = logging.INFO if elsewhere else logging.WARNING if settings.listen is None else None
            certificate = None
            if settings.listen_cert is not None and settings.listen_key is not None:
                try:
                    certificate = Certificate(settings.listen_cert, settings.listen_key)
                except OSError as error:  # an SSLError is one
                    where = f"DUTYCYCLE_LISTEN_CERT={settings.listen_cert}"
                    raise SettingError(f"{where}: no certificate with its key in PEM: {error}") from error
            elif settings.listen_cert is not None or settings.listen_key is not None:
                both = "DUTYCYCLE_LISTEN_CERT and DUTYCYCLE_LISTEN_KEY"
                raise SettingError(f"{both}: give both, or none of them")
            pages = HttpPages(telemetry, settings.listen_token)
            try:
                server = Server(address, pages, certificate)
            except ListenError as error:
                free = address._replace(port=0)
                if not error.taken or fallback is None:
                    why = f"port {address.port} is taken by another process" if error.taken else str(error)
                    raise SettingError(
                        f"DUTYCYCLE_LISTEN={address}: {why}: give another host:port, {free} for any free "
                        "port, or off"
                    ) from error
                remark = "port %d is taken, so another one is used: give one by DUTYCYCLE_LISTEN (--listen)"
                _LOG.log(fallback, remark, address.port)
                server = Server(free, pages, certificate)
            server.start()
            serves = SERVING if certificate is None else SERVING_TLS
            _LOG.info("%s %s%s (/healthz, /readyz, /metrics)", process, serves, server.address)
        async with telemetry.stall_detector.watching():
            yield None if server is None else server.address
    finally:
        if server is not None:
            server.close()
