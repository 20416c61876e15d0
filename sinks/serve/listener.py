"""Answers for all roles at one address, over TLS with a certificate that may be renewed.

Each role says whose certificates it admits. One context knows all these authorities, so a connection may come
from any of them, and each request is checked by the authority that vouches for its client: who may ask as a
kube-scheduler may not ask as the API server.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aiohttp import web

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import PREFIX, Settings
from dutycycle.kafka.tasks import together
from dutycycle.telemetry.certificate import Certificate
from dutycycle.telemetry.endpoint import NEARBY, Address, parse
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.http_runner import runner_of
from sinks.events import CERTIFICATE_UNUSABLE
from sinks.serve.base import Role

_CLOSE_S = 3.0
_LOOK_S = 60.0
_READY_S = 0.05
_PEM = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)


class Listener:
    """Answers the ``routes`` of ``roles``. ``errors``: by role, what it waits for; until that is None for the
    first time its answer is 503, whatever the others do. ``look_s``: how often it is looked whether the
    certificate was renewed."""

    def __init__(
        self,
        settings: Settings,
        telemetry: Telemetry,
        roles: Sequence[Role],
        errors: Mapping[str, Callable[[], str | None]],
        look_s: float = _LOOK_S,
    ) -> None:
        """Raises ``SettingError`` for files that cannot be used, and where others could ask over plain
        HTTP."""
        self._settings, self._telemetry, self._look_s = settings, telemetry, look_s
        self._roles, self._errors = [role for role in roles if role.serves is not None], errors
        self._answers: set[str] = set()
        self._trusted: dict[str, frozenset[bytes]] = {}
        # None is plain HTTP, which is for who asks on the same machine, or is asked who he is.
        self._certificate: Certificate | None = None
        if settings.serve_cert is None or settings.serve_key is None:
            self._check_plain()
        else:
            context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
            # A resumed connection does not show by whom its client was verified.
            context.num_tickets, context.options = 0, context.options | ssl.OP_NO_TICKET
            asking = [role.asks_certificate for role in self._roles]
            if any(asking):
                context.verify_mode = ssl.CERT_REQUIRED if all(asking) else ssl.CERT_OPTIONAL
            try:
                self._certificate = Certificate(settings.serve_cert, settings.serve_key, context)
            except OSError as error:  # an SSLError is one
                raise SettingError(
                    f"DUTYCYCLE_SERVE_CERT={settings.serve_cert}: no certificate with its key in PEM: {error}"
                ) from error
        for role in self._roles:
            if role.client_ca is None:
                continue
            try:
                self.trust(role, Path(role.client_ca).read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError) as error:
                setting = f"{PREFIX}{role.name.upper()}_CLIENT_CA"
                raise SettingError(f"{setting}={role.client_ca}: no certificate in PEM: {error}") from error

    def trust(self, role: Role, authority: str) -> None:
        """Answer for ``role`` from now on only who has a certificate of ``authority`` (PEM), and nobody else.

        Raises ``OSError`` for what is no PEM.
        """
        try:
            certificates = frozenset(map(ssl.PEM_cert_to_DER_cert, _PEM.findall(authority)))
            if certificates == self._trusted.get(role.name) or self._certificate is None:
                return
            self._certificate.context.load_verify_locations(cadata=authority)
        except ValueError as error:  # nothing, or what is no text of a certificate
            raise OSError(str(error)) from error
        self._trusted[role.name] = certificates

    def _check_plain(self) -> None:
        settings, both = self._settings, "DUTYCYCLE_SERVE_CERT and DUTYCYCLE_SERVE_KEY"
        files = {"serve_cert": settings.serve_cert, "serve_key": settings.serve_key}
        files |= {f"{role.name}_client_ca": role.client_ca for role in self._roles}
        for name, file in files.items():
            if file is not None:  # who gives a part of what TLS needs wants TLS
                raise SettingError(f"{PREFIX}{name.upper()}={file}: needs {both}: give both, or none of them")
        for role in self._roles:
            if role.asks_certificate:
                raise SettingError(f"{both}: give the files of the certificate, which {role.name} needs")
        if parse(settings.serve_listen).host in NEARBY:
            return
        if settings.serve_plain == "off":
            raise SettingError(
                f"DUTYCYCLE_SERVE_LISTEN={settings.serve_listen}: others can ask there: give the "
                f"certificate, {both}, or listen on 127.0.0.1"
            )
        if names := [role.name for role in self._roles if not role.allows_plain]:
            raise SettingError(
                f"DUTYCYCLE_SERVE_PLAIN=on: is for web alone: give {', '.join(names)} the certificate, "
                f"{both}, or a process of its own that listens on 127.0.0.1"
            )

    async def serve(self) -> None:
        """Answer until cancelled. Raises ``SettingError`` for an address that cannot be had."""
        runner = runner_of(max(role.largest for role in self._roles), _CLOSE_S)
        for role in self._roles:
            for route in role.routes:
                runner.app.router.add_route(route.method, route.path, self._answering(role, route.handler))
        await runner.setup()
        address, certificate = parse(self._settings.serve_listen), self._certificate
        context = None if certificate is None else certificate.context
        try:
            try:
                await web.TCPSite(runner, address.host, address.port, ssl_context=context).start()
            except OSError as error:
                raise SettingError(
                    f"DUTYCYCLE_SERVE_LISTEN={address}: {error.strerror}: give another host:port"
                ) from error
            where = Address(address.host, runner.addresses[-1][1])
            url = f"{'https' if certificate else 'http'}://{where}"
            await together(self._renew(), *(self._announce(role, url) for role in self._roles))
        finally:
            await runner.cleanup()

    async def _announce(self, role: Role, url: str) -> None:
        """Answer for ``role`` from the first moment on at which it waits for nothing."""
        while self._errors[role.name]() is not None:  # noqa: ASYNC110 - it is the sum of several causes
            await asyncio.sleep(_READY_S)
        self._answers.add(role.name)
        if role.serves is not None:
            self._telemetry.emit(role.serves, url)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            if self._certificate is not None and (unusable := self._certificate.renew()) is not None:
                self._telemetry.raise_condition(CERTIFICATE_UNUSABLE, "serve", unusable)
            else:
                self._telemetry.clear_condition(CERTIFICATE_UNUSABLE, "serve", "it can be used again")

    def _answering(self, role: Role, handler: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
        async def answer(request: web.Request) -> web.StreamResponse:
            trusted = self._trusted.get(role.name, frozenset())
            if role.asks_certificate and trusted.isdisjoint(_chain(request)):
                return web.Response(status=401, text=f"{role.name}: no certificate of its authority\n")
            if role.name not in self._answers:
                waits = self._errors[role.name]() or "starting"
                return web.Response(status=503, text=f"{role.name}: {waits}\n")
            try:
                response: web.StreamResponse = await handler(request)
            except ConnectionError:
                if request.transport is not None:  # it is another's connection that broke
                    raise
                return web.Response(status=400)  # who asked waits no longer; this answer reaches nobody
            return response

        return answer


def _chain(request: web.Request) -> list[bytes]:
    """Return the certificates by which the client was verified, its own first, in DER; none of a client
    without."""
    connection = request.get_extra_info("ssl_object")
    if connection is None:
        return []
    if hasattr(connection, "get_verified_chain"):  # from Python 3.13 on, where each is bytes
        return list(connection.get_verified_chain())
    chain = connection._sslobj.get_verified_chain() or ()
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in chain]
