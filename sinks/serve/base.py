"""Defines what a role is: one thing that is answered from the topics, alone in a process or beside others."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.events import Event, Telemetry
from dutycycle.view.follower import Subscription

if TYPE_CHECKING:
    # Not at run time: series need no aiohttp.
    from aiohttp import web

    from dutycycle.kube.objects import ApiServer

Models = dict[type, Any]
"""What the roles of a process know together, by its class: made by the first, and fed once."""


class Admission(Protocol):
    """Lets clients in: the listener, as a role knows it."""

    def trust(self, role: "Role", authority: str) -> None:
        """Answer for ``role`` from now on only who has a certificate of ``authority`` (PEM), and nobody else.

        Raises ``OSError`` for what is no PEM.
        """
        ...


class Role:
    """Is made before anything is connected, which raises ``SettingError`` for settings that cannot be used.

    ``subscriptions``: what it takes from the topics. ``outputs``: topics that it writes. ``routes``: what it
    answers on the process's listener, with bodies of at most ``largest`` bytes; ``serves`` is emitted when it
    does. ``asks_certificate``: only clients are answered whose certificate an authority that the role has
    given to ``Admission.trust`` vouches for. ``allows_plain``: it finds out by itself who asks, so that plain
    HTTP can be allowed where others reach it.
    """

    name: ClassVar[str]
    serves: ClassVar[Event | None] = None
    largest: ClassVar[int] = 1024**2
    outputs: ClassVar[tuple[str, ...]] = ()
    subscriptions: Sequence[Subscription]
    routes: "Sequence[web.RouteDef]" = ()
    asks_certificate = False
    allows_plain: ClassVar[bool] = False
    _server: "ApiServer | None" = None

    def __init__(
        self, settings: Settings, telemetry: Telemetry, models: Models, client_ca: str | None = None
    ) -> None:
        """Make it. ``client_ca``: the file of the authority, where a setting names it."""
        self.settings, self.telemetry, self.client_ca = settings, telemetry, client_ca
        self.asks_certificate = self.asks_certificate or client_ca is not None

    def readiness_error(self) -> str | None:
        """Return what it waits for beside its topics; None for nothing."""
        return None

    async def open(self) -> None:
        """Connect to what it cannot do without. Raises ``DutycycleError``."""

    async def work(self, admission: Admission | None) -> None:
        """Do what is to be done beside answering, until cancelled."""

    async def close(self) -> None:
        """Disconnect, after the last answer."""
        if self._server is not None:
            await self._server.close()

    async def _connect(self, program: str) -> "ApiServer":
        """Connect to the API server, until it is closed. Raises ``SettingError`` without one."""
        from dutycycle.kube.objects import connect

        self._server = await connect("on", asked_by=f"dutycycle {program}", user_agent=f"dutycycle-{program}")
        assert self._server is not None  # noqa: S101 - "on" finds one, or raises
        return self._server
