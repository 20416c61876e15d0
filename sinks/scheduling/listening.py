"""Listens for kube-scheduler or the API server, over TLS with a certificate that may be renewed."""

import asyncio
import ssl
from dataclasses import dataclass

from aiohttp import web

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import PREFIX
from dutycycle.telemetry.certificate import Certificate
from dutycycle.telemetry.endpoint import LOOPBACK, parse
from dutycycle.telemetry.events import Event, Telemetry
from sinks.events import CERTIFICATE_UNUSABLE
from sinks.serving import listening

_CLOSE_S = 3.0
_LOOK_S = 60.0
_NEARBY = frozenset({LOOPBACK, "::1", "localhost"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to listen, and the files of the certificate; ``name`` is the first word of their settings."""

    name: str
    listen: str
    cert: str | None
    key: str | None
    client_ca: str | None

    def setting(self, what: str) -> str:
        """The name of one of its settings."""
        return f"{PREFIX}{self.name}_{what}".upper()

    def tls(self) -> Certificate | None:
        """None: plain HTTP, which is for who asks on the same machine alone. Raises ``SettingError``."""
        if self.cert is None or self.key is None:
            self._check_plain()
            return None
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        if self.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            try:
                context.load_verify_locations(self.client_ca)
            except OSError as error:
                raise SettingError(
                    f"{self.setting('client_ca')}={self.client_ca}: no certificate in PEM: {error}"
                ) from error
        try:
            return Certificate(self.cert, self.key, context)
        except OSError as error:  # an SSLError is one
            raise SettingError(
                f"{self.setting('cert')}={self.cert}: no certificate with its key in PEM: {error}"
            ) from error

    def _check_plain(self) -> None:
        """Who gives a part of what TLS needs wants TLS."""
        both = f"{self.setting('cert')} and {self.setting('key')}"
        for what in ("cert", "key", "client_ca"):
            if (file := getattr(self, what)) is not None:
                raise SettingError(f"{self.setting(what)}={file}: needs {both}: give both, or none of them")
        if parse(self.listen).host not in _NEARBY:
            raise SettingError(
                f"{self.setting('listen')}={self.listen}: others can ask there: give the certificate, "
                f"{both}, or listen on 127.0.0.1"
            )

    async def serve(
        self, app: web.Application, tls: Certificate | None, telemetry: Telemetry, serves: Event,
        look_s: float = _LOOK_S,
    ) -> None:  # fmt: skip
        """Answer until cancelled. ``look_s``: how often it is looked whether the certificate was renewed."""
        runner = web.AppRunner(app, shutdown_timeout=_CLOSE_S, access_log=None)
        await runner.setup()
        try:
            context = None if tls is None else tls.context
            async with listening(runner, parse(self.listen), context, self.setting("listen")) as where:
                telemetry.emit(serves, f"{'https' if tls else 'http'}://{where}")
                telemetry.status.waiting = None
                await self._renew(tls, telemetry, look_s)
        finally:
            await runner.cleanup()

    async def _renew(self, tls: Certificate | None, telemetry: Telemetry, look_s: float) -> None:
        while True:
            await asyncio.sleep(look_s)
            if tls is not None and (unusable := tls.renew()) is not None:
                telemetry.raise_condition(CERTIFICATE_UNUSABLE, self.name, unusable)
            else:
                telemetry.clear_condition(CERTIFICATE_UNUSABLE, self.name, "it can be used again")
