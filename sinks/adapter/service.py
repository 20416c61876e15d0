"""The adapter's process: reads the topics, and listens for the API server."""

import asyncio
import ssl
from pathlib import Path

from aiohttp import web

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kafka.reachability import StoppedError, unless, wait_for_topics
from dutycycle.kube.discovery import Kind
from dutycycle.kube.errors import KubeError
from dutycycle.kube.objects import ApiServer, connect
from dutycycle.telemetry.endpoint import parse
from dutycycle.telemetry.events import Telemetry
from sinks.adapter.figures import Figures
from sinks.adapter.front_proxy import FrontProxy, NoFrontProxyError
from sinks.adapter.reader import AdapterReader
from sinks.adapter.server import MetricsApi
from sinks.events import ADAPTER_SERVES, DERIVED, FRONT_PROXY_UNKNOWN
from sinks.serving import listening
from sinks.tasks import together

_CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
_NAME, _NAMESPACE = "extension-apiserver-authentication", "kube-system"
_LOOK_S = 60.0
"""How often certificates are looked at, the API server's and our own: both are renewed."""
_CLOSE_S = 3.0


async def run(settings: Settings, telemetry: Telemetry, stop: asyncio.Event) -> None:
    """Answer until ``stop`` is set. Raises ``SettingError`` where there is no certificate or API server."""
    if settings.adapter_cert is None or settings.adapter_key is None:
        raise SettingError(
            "DUTYCYCLE_ADAPTER_CERT and DUTYCYCLE_ADAPTER_KEY: give the files of the certificate"
        )
    server = await connect("on", asked_by="dutycycle adapter", user_agent="dutycycle-adapter")
    assert server is not None  # noqa: S101 - "on" finds one, or raises
    current = Figures(settings.lateness)
    reader = AdapterReader(settings, current, telemetry)
    api = MetricsApi(current, server, telemetry)
    status = telemetry.status
    status.ready["figures"] = reader.readiness_error
    try:
        status.waiting = f"waiting for the broker at {settings.broker}"
        await unless(stop, wait_for_topics(settings, telemetry, DERIVED))
        status.waiting = "waiting for the API server's certificate authority"
        await unless(stop, together(reader.run(), serve(settings, telemetry, server, api)))
    except StoppedError:
        return
    finally:
        await server.close()


async def serve(
    settings: Settings, telemetry: Telemetry, server: ApiServer, api: MetricsApi, look_s: float = _LOOK_S
) -> None:
    """Listen; again where a certificate was renewed, which is looked for every ``look_s``."""
    runner = web.AppRunner(api.app(), shutdown_timeout=_CLOSE_S, access_log=None)
    await runner.setup()
    address, backoff = parse(settings.adapter_listen), Backoff()
    try:
        while True:
            front_proxy = await _front_proxy(server, telemetry, backoff)
            files = _files(settings)
            api.front_proxy = front_proxy
            tls = _tls(settings, front_proxy)
            async with listening(runner, address, tls, "DUTYCYCLE_ADAPTER_LISTEN") as where:
                telemetry.emit(ADAPTER_SERVES, f"https://{where}")
                telemetry.status.waiting = None
                while True:
                    await asyncio.sleep(look_s)
                    if files != _files(settings):
                        break
                    if front_proxy != await _front_proxy(server, telemetry, backoff):
                        break
    finally:
        await runner.cleanup()


async def _front_proxy(server: ApiServer, telemetry: Telemetry, backoff: Backoff) -> FrontProxy:
    """How the API server is recognised; what keeps us from knowing it is said and waited for."""
    while True:
        try:
            front_proxy = FrontProxy.of((await server.read(_CONFIG_MAP, _NAME, _NAMESPACE)).get("data") or {})
        except (KubeError, NoFrontProxyError) as error:
            telemetry.raise_condition(
                FRONT_PROXY_UNKNOWN, _NAME, f"ConfigMap {_NAMESPACE}/{_NAME}: {error}; trying again"
            )
            await asyncio.sleep(backoff.next_s())
        else:
            telemetry.clear_condition(FRONT_PROXY_UNKNOWN, _NAME, "it is known")
            backoff.reset()
            return front_proxy


def _files(settings: Settings) -> list[bytes]:
    return [Path(name).read_bytes() for name in (settings.adapter_cert, settings.adapter_key) if name]


def _tls(settings: Settings, front_proxy: FrontProxy) -> ssl.SSLContext:
    try:
        return front_proxy.tls(settings.adapter_cert or "", settings.adapter_key or "")
    except OSError as error:  # an SSLError is one
        raise SettingError(
            f"DUTYCYCLE_ADAPTER_CERT={settings.adapter_cert}: no certificate with its key in PEM: {error}"
        ) from error
