"""Holds the role ``autoscaler``, which answers the API server for autoscalers, as the metrics adapter."""

import asyncio

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.settings.groups import Settings
from dutycycle.kube.discovery import CONFIG_MAP
from dutycycle.kube.errors import KubeError
from dutycycle.kube.objects import ApiServer
from dutycycle.telemetry.events import Telemetry
from dutycycle.view.follower import Subscription
from sinks.adapter.figures import Figures
from sinks.adapter.front_proxy import FrontProxy, NoFrontProxyError
from sinks.adapter.server import MetricsApi
from sinks.events import ADAPTER_SERVES, FRONT_PROXY_UNKNOWN
from sinks.serve.base import Admission, Models, Role

_NAME, _NAMESPACE = "extension-apiserver-authentication", "kube-system"
_LOOK_S = 60.0
"""How often it is looked how the API server is recognised: its authority is renewed."""
_LOOK_BACK_S = 180.0
"""So old are the windows that a start begins with: figures are there at once."""
TOPICS = {"window-aggregates": _LOOK_BACK_S, "trends": None, "cycles": None, "pods": None}


class AutoscalerRole(Role):
    """Answers nobody but the API server, which says for whom it asks."""

    name, serves, asks_certificate = "autoscaler", ADAPTER_SERVES, True

    def __init__(self, settings: Settings, telemetry: Telemetry, models: Models) -> None:
        super().__init__(settings, telemetry, models)
        self.figures = Figures(settings.lateness)
        self.subscriptions = [Subscription(TOPICS, self.figures.take)]

    async def open(self) -> None:
        """Raises ``SettingError`` without an API server."""
        self.use(await self._connect("adapter"))

    def use(self, server: ApiServer) -> None:
        """Ask ``server`` for pods, for what users may, and how it is recognised itself."""
        self._server, self._api = server, MetricsApi(self.figures, server, self.telemetry)
        self.routes = self._api.routes()

    def readiness_error(self) -> str | None:
        """Tell that it is not ready, until the API server can be recognised."""
        return None if self._api.front_proxy else "waiting for the API server's certificate authority"

    async def work(self, admission: Admission | None, look_s: float = _LOOK_S) -> None:
        """Look how the API server is recognised; what keeps us from knowing it is said and waited for."""
        assert self._server is not None  # noqa: S101 - ``open`` comes first
        assert admission is not None  # noqa: S101 - there are routes
        backoff = Backoff()
        while True:
            try:
                config = await self._server.read(CONFIG_MAP, _NAME, _NAMESPACE)
                front_proxy = FrontProxy.of(config.get("data") or {})
                admission.trust(self, front_proxy.authority)
            except (KubeError, NoFrontProxyError, OSError) as error:
                self.telemetry.raise_condition(
                    FRONT_PROXY_UNKNOWN, _NAME, f"ConfigMap {_NAMESPACE}/{_NAME}: {error}; trying again"
                )
                await asyncio.sleep(backoff.next_s())
            else:
                self.telemetry.clear_condition(FRONT_PROXY_UNKNOWN, _NAME, "it is known")
                backoff.reset()
                self._api.front_proxy = front_proxy
                await asyncio.sleep(look_s)
