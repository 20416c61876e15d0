"""``dutycycle extender``: reads the topics, and answers kube-scheduler."""

import asyncio
import ssl

from aiohttp import web

from bus.kafka.reachability import StoppedError, unless, wait_for_topics
from contract.errors import SettingError
from contract.settings.groups import Settings
from contract.topics import ALIKE_TOPICS
from sinks.events import EXTENDER_SERVES
from sinks.scheduling.extender import Extender
from sinks.scheduling.known import KnownCluster
from sinks.scheduling.reader import DESCRIBED, ENDED, Reader
from sinks.serving import listening, together
from telemetry.endpoint import LOOPBACK, parse
from telemetry.events import Telemetry

_CLOSE_S = 3.0
_NEARBY = frozenset({LOOPBACK, "::1", "localhost"})


async def run(settings: Settings, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Answer until ``stop`` is set. Raises ``SettingError`` for an address that cannot be had."""
    tls = _tls(settings)
    known = KnownCluster()
    reader = Reader(settings, known, telemetry)
    status = telemetry.status
    status.ready["topics"] = reader.readiness_error
    status.waiting = f"waiting for the broker at {settings.broker}"
    outputs = [name for name in (*DESCRIBED, *ENDED) if name not in ALIKE_TOPICS]
    try:
        await unless(stop, wait_for_topics(settings, telemetry, ALIKE_TOPICS, outputs=outputs))
        app = Extender(known, telemetry).app()
        await unless(stop, together(reader.run(), _serve(settings, telemetry, app, reader, tls)))
    except StoppedError:
        return


async def _serve(
    settings: Settings, telemetry: Telemetry, app: web.Application, reader: Reader,
    tls: ssl.SSLContext | None,
) -> None:  # fmt: skip
    """Listen once all is known that there is: the scheduler goes on without us until then."""
    telemetry.status.waiting = "reading the topics"
    await reader.caught_up.wait()
    runner = web.AppRunner(app, shutdown_timeout=_CLOSE_S, access_log=None)
    await runner.setup()
    address = parse(settings.extender_listen)
    try:
        async with listening(runner, address, tls, "DUTYCYCLE_EXTENDER_LISTEN") as where:
            telemetry.emit(EXTENDER_SERVES, f"{'https' if tls else 'http'}://{where}")
            telemetry.status.waiting = None
            await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    """None: plain HTTP, which is for a scheduler on the same machine alone."""
    address = parse(settings.extender_listen)
    if settings.extender_cert is None or settings.extender_key is None:
        if address.host not in _NEARBY:
            raise SettingError(
                f"DUTYCYCLE_EXTENDER_LISTEN={address}: others can ask there: give the certificate, "
                "DUTYCYCLE_EXTENDER_CERT and DUTYCYCLE_EXTENDER_KEY, or listen on 127.0.0.1"
            )
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=settings.extender_client_ca)
    if settings.extender_client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_cert_chain(settings.extender_cert, settings.extender_key)
    except OSError as error:  # an SSLError is one
        raise SettingError(
            f"DUTYCYCLE_EXTENDER_CERT={settings.extender_cert}: no certificate with its key in PEM: {error}"
        ) from error
    return context
