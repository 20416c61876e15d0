"""Finds out who asks, and whose names he may read: by a token, by a proxy's word, by the API server's."""

import asyncio
import hmac
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from contextlib import contextmanager, suppress
from functools import partial
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING

from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.kube.client import Limits
from dutycycle.kube.errors import KubeError
from dutycycle.kube.objects import ApiServer, connect
from dutycycle.web.questions import EVERYBODY, PageError, Viewer
from sinks.reviews import Reviewer, User

if TYPE_CHECKING:
    from collections.abc import Iterator

    from aiohttp import web

COOKIE = "dutycycle-session"
_LEAST_TOKEN, _MOST_TOKEN = 16, 8000
_MOST_SESSIONS = 10_000
_MOST_TRIED = 32
"""Tokens that are tried at once; a wrong one takes a second, so not many more are tried in a second."""
_WRONG_S = 1.0
_LONGEST_NAME = 256
_REMEMBERED_S = 15.0
"""For so long an answer of the API server is kept, and then what may be seen by it: half a minute at most."""
_AT_ONCE, _MOST_NAMESPACES = 16, 2000
_LIMITS = Limits(answer_s=5.0, requests_per_s=500.0)
_LIST_PODS = {"verb": "list", "version": "v1", "resource": "pods"}
_GROUP = "group:"
_KUBERNETES_OWN = "system:"
_AUTHENTICATED = "system:authenticated"


class Gate:
    """Says who asks.

    ``namespaces`` gives the names of all that are known; of each the API server is asked whether somebody
    may list pods there. ``refused`` hears of what the API server does not answer, or refuses us.
    """

    def __init__(
        self,
        settings: Settings,
        namespaces: Callable[[], Awaitable[Collection[str]]],
        refused: Callable[[KubeError], object] = lambda _: None,
    ) -> None:
        """Raises ``SettingError`` for a token that is too short or cannot be read or made, and for proxies
        without a list of who may."""
        self._settings, self._namespaces, self._refused = settings, namespaces, refused
        self._token = _read_token(settings)
        self._proxies = [ip_network(network) for network in settings.web_proxies]
        self._allowed = frozenset(settings.web_allow)
        if bool(self._proxies) != bool(self._allowed):
            given, lacks = ("WEB_PROXIES", "WEB_ALLOW") if self._proxies else ("WEB_ALLOW", "WEB_PROXIES")
            raise SettingError(
                f"DUTYCYCLE_{given}: names proxies, or who may see the page by their word: give "
                f"DUTYCYCLE_{lacks}, too"
            )
        self._sessions: OrderedDict[str, str] = OrderedDict()
        self._tried = 0
        self._server: ApiServer | None = None
        self._reviewer: Reviewer | None = None
        self._viewers: dict[User, tuple[Viewer, float]] = {}

    @property
    def asks(self) -> bool:
        """Tell whether anybody is asked who he is."""
        return bool(self._token is not None or self._proxies or self._reviews)

    @property
    def takes_tokens(self) -> bool:
        """Tell whether somebody can sign in with a token."""
        return self._token is not None or self._reviews

    @property
    def _reviews(self) -> bool:
        return self._settings.web_kubernetes == "on"

    async def open(self) -> None:
        """Find the API server where it is to be asked. Raises ``SettingError``."""
        if self._reviews and self._reviewer is None:
            server = await connect(
                "on", asked_by="DUTYCYCLE_WEB_KUBERNETES=on", limits=_LIMITS, user_agent="dutycycle-web"
            )
            assert server is not None  # noqa: S101 - "on" finds one, or raises
            self._server, self._reviewer = server, Reviewer(server, remembered_s=_REMEMBERED_S)

    async def close(self) -> None:
        """Disconnect from the API server."""
        if self._server is not None:
            await self._server.close()

    async def viewer(self, request: "web.Request") -> Viewer | None:
        """Return who asks; None of somebody who has to sign in. Raises ``PageError``."""
        if not self.asks:
            return EVERYBODY
        user = self._named_by_proxy(request)
        if user is not None:
            return await self._viewer_of(user)
        token = self._sessions.get(request.cookies.get(COOKIE, ""))
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            token = given.strip()
        return None if token is None else await self._viewer_by_token(token)

    async def sign_in(self, token: str) -> str | None:
        """Return a session for a token, None for one that nobody has. Raises ``PageError``."""
        if not self.asks:
            return ""
        if await self._viewer_by_token(token) is None:
            return None
        session = token_urlsafe(32)
        self._sessions[session] = token
        while len(self._sessions) > _MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _named_by_proxy(self, request: "web.Request") -> User | None:
        """Return whom the proxy names; None where nobody is named. Raises ``PageError``."""
        if not self._proxies:
            return None
        headers = (self._settings.web_user_header, self._settings.web_groups_header)
        names, groups = (request.headers.getall(header, []) for header in headers)
        if not names and not groups:
            return None
        if not self._is_proxy(request.remote):
            raise PageError(f"{headers[0]}: only a proxy of DUTYCYCLE_WEB_PROXIES may say who asks", 403)
        if len(names) != 1 or len(groups) > 1 or not _is_name(names[0]):
            raise PageError(
                f"{headers[0]}: expected one name, of {_LONGEST_NAME} letters at most, and one {headers[1]}",
                403,
            )
        of = tuple(name for part in ",".join(groups).split(",") if _is_name(name := part.strip()))
        if self._allowed.isdisjoint(("*", names[0], *(_GROUP + name for name in of))):
            raise PageError(f"{names[0]}: is not among those of DUTYCYCLE_WEB_ALLOW", 403)
        return User(names[0], (*of, _AUTHENTICATED))

    def _is_proxy(self, remote: str | None) -> bool:
        try:
            address = ip_address((remote or "").partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address in network for network in self._proxies)

    async def _viewer_by_token(self, token: str) -> Viewer | None:
        given = token.encode(errors="surrogateescape")
        if self._token is not None and hmac.compare_digest(given, self._token.encode()):
            return Viewer("the holder of the token")
        if self._tried >= _MOST_TRIED:
            raise PageError("too many tokens are tried: try again in a moment", 429)
        self._tried += 1
        try:
            user = None
            if self._reviewer is not None and 0 < len(token) <= _MOST_TOKEN and token.isascii():
                with self._asking():
                    user = await self._reviewer.user_of(token)
            if user is None:
                await asyncio.sleep(_WRONG_S)  # whoever tries many has to wait
                return None
        finally:
            self._tried -= 1
        return await self._viewer_of(user)

    async def _viewer_of(self, user: User) -> Viewer:
        """Return who a user is, with the namespaces in which he may list pods where the API server says
        these."""
        reviewer = self._reviewer
        if reviewer is None:
            return Viewer(user.name)
        viewer, until_s = self._viewers.get(user, (None, 0.0))
        if viewer is not None and until_s > time.monotonic():
            return viewer
        turns = asyncio.Semaphore(_AT_ONCE)

        async def may_see(namespace: str) -> bool:
            async with turns:
                return await reviewer.allows(
                    user, {"resourceAttributes": {**_LIST_PODS, "namespace": namespace}}
                )

        allowed: frozenset[str] | None = None
        with self._asking():
            if not await may_see(""):
                names = sorted(await self._namespaces())[:_MOST_NAMESPACES]
                answers = await asyncio.gather(*map(may_see, names))
                allowed = frozenset(name for name, is_seen in zip(names, answers, strict=True) if is_seen)
        if len(self._viewers) >= _MOST_SESSIONS:
            self._viewers.clear()
        viewer = Viewer(user.name, allowed)
        self._viewers[user] = viewer, time.monotonic() + _REMEMBERED_S
        return viewer

    @contextmanager
    def _asking(self) -> "Iterator[None]":
        try:
            yield
        except KubeError as error:
            self._refused(error)
            raise PageError(
                "The API server does not say who may see what, so nothing is shown: try again in a minute",
                503,
            ) from error


def _is_name(name: str) -> bool:
    """Tell whether a proxy may call somebody, or a group, so. Names of Kubernetes' own are not."""
    return (
        0 < len(name) <= _LONGEST_NAME
        and name.isprintable()
        and "," not in name
        and not name.startswith((_KUBERNETES_OWN, _GROUP))
    )


def _read_token(settings: Settings) -> str | None:
    """Read the token of the file. Where there is none one is made, which its owner alone can read."""
    if settings.web_token is None:
        return None
    file = Path(settings.web_token)
    try:
        if not file.exists():
            private = partial(os.open, mode=0o600)
            with suppress(FileExistsError), open(file, "x", encoding="utf-8", opener=private) as new:
                new.write(f"{token_urlsafe(24)}\n")
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingError(f"DUTYCYCLE_WEB_TOKEN={file}: no token can be read or made: {reason}") from error
    if len(token) < _LEAST_TOKEN:
        raise SettingError(
            f"DUTYCYCLE_WEB_TOKEN={settings.web_token}: expected a token of {_LEAST_TOKEN} letters or more"
        )
    return token
