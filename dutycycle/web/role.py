"""Makes the role ``web``: the page for browsers, of a cluster, on the listener of ``dutycycle serve``."""

import asyncio
import time
from typing import TYPE_CHECKING

from dutycycle.contract.settings.groups import Settings
from dutycycle.live.follow import FROM_BEGINNING, FROM_END, keep_time
from dutycycle.live.model.state import LiveState
from dutycycle.live.source import Source
from dutycycle.telemetry.events import Telemetry
from dutycycle.view.follower import Subscription
from dutycycle.web.server import LARGEST, WebPage
from sinks.events import WEB_SERVES
from sinks.permissions import MissingPermissions
from sinks.serve.base import Models, Role

if TYPE_CHECKING:
    from aiohttp import web


class WebRole(Role):
    """Shows what the screen of ``dutycycle top`` shows, and the ledger of the records."""

    name, serves, largest, allows_plain = "web", WEB_SERVES, LARGEST, True

    def __init__(self, settings: Settings, telemetry: Telemetry, models: Models) -> None:
        """Raises ``SettingError`` where others reach the listener and nobody is asked who he is."""
        super().__init__(settings, telemetry, models)
        self._state = LiveState()
        self._clock: asyncio.Task[None] | None = None

        def degraded() -> list[str]:
            error = telemetry.status.readiness_error()
            return [] if error is None else [error]

        source = Source(self._state, "dutycycle serve", f"broker: {settings.broker}", degraded)
        lacking = MissingPermissions("WebPage", telemetry, "who asks is told to try again")
        self._page = WebPage(source, settings, settings.serve_listen, lacking.add)
        self.routes: list[web.RouteDef] = self._page.routes()
        topics = dict.fromkeys(FROM_BEGINNING) | dict.fromkeys(FROM_END, 0.0)

        def feed_state(topic: str, key: str, payload: bytes | None) -> None:
            self._state.feed(topic, key, payload, time.time_ns() // 1_000_000)

        self.subscriptions = [Subscription(topics, feed_state, decodes=True)]

    async def open(self) -> None:
        """Find the API server, where it is asked who may see what, or for pools. Raises ``SettingError``."""
        await self._page.open()
        self._clock = asyncio.create_task(keep_time(self._state))

    async def close(self) -> None:
        """Disconnect from it."""
        if self._clock is not None:
            self._clock.cancel()
        await self._page.close()
