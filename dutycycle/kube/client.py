"""Sends requests to one API server: paced, with credentials that may change, and errors that are ours.

Answers stay plain JSON: of a pod a tenth is used, and models of all of it would cost more than the rest.
"""

import asyncio
import errno
import os
import ssl
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import aiohttp
import orjson
from multidict import CIMultiDict
from yarl import URL

from dutycycle.kube.config import Access, ConfigSource, UnusableConfigError
from dutycycle.kube.errors import BusyError, KubeError, error_of_answer
from dutycycle.kube.references import JSON

T = TypeVar("T")
MERGE_PATCH = "application/merge-patch+json"
"""Changes what is there, and never creates it. A strategic one would be refused for custom resources: 415."""
APPLY = "application/apply-patch+yaml"
"""Is all that the manager in the query wants: JSON is YAML."""
_AS_US = {"fieldManager": "dutycycle"}
_GOOD = frozenset({200, 201, 202})
_CONNECT_S = 5.0
_BURST_S = 2.0
_GRACE_S = 15.0
"""How much longer than its own end a stream is waited for; then the connection counts as dead."""
_STALE = frozenset({"401", "certificate"})
"""What may be mended by reading credentials and certificates anew: a pod's are replaced while it runs."""


class TokenBucket:
    """Allows so many requests a second; after a pause up to 2 s' worth at once. Turns are given in order."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._free_at = float("-inf")

    def turn(self, now: float) -> float:
        """Return seconds to wait, by any one clock, before the request may be sent."""
        self._free_at = max(self._free_at, now - _BURST_S) + 1 / self._rate_per_s
        return max(0.0, self._free_at - now)


@dataclass(frozen=True, slots=True)
class Limits:
    """Says how long an answer is waited for, and how many requests a second there may be."""

    answer_s: float = 15.0
    requests_per_s: float = 50.0


@dataclass(frozen=True, slots=True)
class _Request:
    """Describes a request. ``content`` is the type of its body, if it has one."""

    path: str
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    accept: str = JSON
    method: str = "GET"
    body: Mapping[str, Any] | None = None
    content: str = JSON

    def url(self, access: Access) -> URL:
        """Return its URL at that API server."""
        query = f"?{urlencode(self.query, doseq=True)}" if self.query else ""
        return URL(access.address + self.path + query, encoded=True)


class Client:
    """Belongs to the event loop of its first request, until it is closed. Raises ``KubeError``.

    A request that fails for credentials or certificates is sent once more, with what ``source`` has now.
    """

    def __init__(
        self,
        access: Access,
        *,
        source: ConfigSource | None = None,
        limits: Limits | None = None,
        user_agent: str = "",
    ) -> None:
        self.access = access
        self.answered = 0
        """How many requests were answered as they were meant: what proves that the server is there."""
        self._source = source
        self._limits = limits or Limits()
        self._user_agent = user_agent or "dutycycle"
        self._bucket = TokenBucket(self._limits.requests_per_s)
        self._renewing = asyncio.Lock()
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self, path: str, query: Mapping[str, str] | None = None, accept: str = JSON
    ) -> dict[str, Any]:
        """Return the JSON object at a path."""
        return await self._call(_Request(path, query or {}, accept))

    async def change(
        self, method: str, path: str, body: Mapping[str, Any], query: Mapping[str, str] = _AS_US,
        *, content: str = JSON, accept: str = JSON,
    ) -> dict[str, Any]:  # fmt: skip
        """Send an object, a patch of one, or how it is to be deleted; returns what is there then."""
        return await self._call(_Request(path, query, accept, method, body, content))

    async def stream(
        self, path: str, query: Mapping[str, str], seconds: float
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield JSON objects, one a line, as they come: for ``seconds``, or until the connection breaks
        off."""
        async with aclosing(self.lines(path, query, seconds)) as lines:
            async for line in lines:
                if line.strip():
                    yield self._parsed(line)

    async def lines(
        self, path: str, query: Mapping[str, str], seconds: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield lines as they come, without their ends. ``seconds``: how long there may be none."""
        rest = b""
        # A limit for each piece, not for all: whoever reads may take long over one of them.
        patience_s = None if seconds is None else seconds + _GRACE_S
        silence = aiohttp.ClientTimeout(sock_connect=_CONNECT_S, sock_read=patience_s)
        async with self._opened(_Request(path, query), silence) as response:
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line
        if rest:
            yield rest

    async def frames(
        self, path: str, query: Mapping[str, str | Sequence[str]], protocol: str, seconds: float
    ) -> AsyncGenerator[bytes, None]:
        """Yield the messages of a WebSocket, to its end. ``seconds``: how long there may be none."""
        request = _Request(path, query)
        limit = aiohttp.ClientTimeout(total=self._limits.answer_s, sock_connect=_CONNECT_S)
        socket = await self._accepted(lambda access: self._upgraded(access, request, protocol, limit))
        with _translated(self.access.address, aiohttp.ClientTimeout(total=seconds)):
            async with socket:
                while (message := await socket.receive(seconds)).type is aiohttp.WSMsgType.BINARY:
                    yield message.data

    async def close(self) -> None:
        """Give the connections back. The next request, of any event loop, makes new ones."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _call(self, request: _Request) -> dict[str, Any]:
        limit = aiohttp.ClientTimeout(total=self._limits.answer_s, sock_connect=_CONNECT_S)
        async with self._opened(request, limit) as response:
            return self._parsed(await response.read())

    @asynccontextmanager
    async def _opened(
        self, request: _Request, limit: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        response = await self._accepted(lambda access: self._send(access, request, limit))
        with _translated(self.access.address, limit):
            async with response:
                yield response

    async def _accepted(self, send: Callable[[Access], Awaitable[T]]) -> T:
        used = self.access
        try:
            return await send(used)
        except KubeError as error:
            if error.reason not in _STALE or self._source is None:
                raise
            source = self._source
        # Credentials and certificates are read anew. They make new connections; the old ones end idle.
        async with self._renewing:
            if self.access is used:  # else another request has renewed them meanwhile
                try:
                    self.access = await asyncio.to_thread(source.read)
                except UnusableConfigError as error:
                    says = f"{used.address}: credentials cannot be read: {error}"
                    raise BusyError("401", says, everything=True) from error
        return await send(self.access)

    async def _send(
        self, access: Access, request: _Request, limit: aiohttp.ClientTimeout
    ) -> aiohttp.ClientResponse:
        session = await self._turn()
        with _translated(access.address, limit):
            response = await session.request(
                request.method,
                request.url(access),
                headers=self._headers(access, request),
                data=None if request.body is None else orjson.dumps(request.body),
                ssl=access.tls or True,
                server_hostname=access.server_name,
                proxy=access.proxy,
                timeout=limit,
            )
            if response.status in _GOOD:
                self.answered += 1
                return response
            async with response:
                raise error_of_answer(response.status, response.headers, await response.read())

    async def _upgraded(
        self, access: Access, request: _Request, protocol: str, limit: aiohttp.ClientTimeout
    ) -> aiohttp.ClientWebSocketResponse:
        session = await self._turn()
        with _translated(access.address, limit):
            try:
                async with asyncio.timeout(limit.total):
                    return await session.ws_connect(
                        request.url(access),
                        protocols=(protocol,),
                        headers=self._headers(access, request),
                        ssl=access.tls or True,
                        server_hostname=access.server_name,
                        proxy=access.proxy,
                    )
            except aiohttp.WSServerHandshakeError as refused:
                # Its body, which says why, is lost. Without the upgrade the same request is refused alike.
                async with await self._send(access, request, limit):
                    raise BusyError(
                        str(refused.status), f"{refused.status}: no WebSocket was opened"
                    ) from refused

    async def _turn(self) -> aiohttp.ClientSession:
        await asyncio.sleep(self._bucket.turn(time.monotonic()))
        if self._session is None:
            self._session = aiohttp.ClientSession(trust_env=True)
        return self._session

    def _headers(self, access: Access, request: _Request) -> CIMultiDict[str]:
        headers = CIMultiDict({"Accept": request.accept, "User-Agent": self._user_agent})
        if access.act_as is not None:
            headers.extend(access.act_as.headers())
        if authorization := access.authorization():
            headers["Authorization"] = authorization
        if request.body is not None:
            headers["Content-Type"] = request.content
        return headers

    def _parsed(self, text: bytes) -> dict[str, Any]:
        try:
            return dict(orjson.loads(text))
        except (ValueError, TypeError) as error:
            says = f"{self.access.address} does not answer as an API server does: no JSON object came back"
            raise BusyError("answer", says) from error


@contextmanager
def _translated(address: str, limit: aiohttp.ClientTimeout) -> Iterator[None]:
    """Raise the errors of aiohttp, of TLS and of the system as ours."""
    try:
        yield
    except TimeoutError as error:
        raise BusyError(
            "timeout", f"{address}: no answer within {limit.total or limit.sock_read or 0:g} s"
        ) from error
    except (ssl.SSLError, aiohttp.ClientSSLError) as error:
        says = (
            f"no TLS connection to {address}: {cause(error)}; check the certificate authority, the "
            "tls-server-name and the client certificate in its configuration"
        )
        raise BusyError("certificate", says, everything=True) from error
    except (aiohttp.ClientError, OSError) as error:
        raise BusyError(
            "connection", f"{address} does not answer: {cause(error)}", everything=True
        ) from error


def cause(error: Exception) -> str:
    """Return the innermost words, in a line: aiohttp wraps what the system or OpenSSL said."""
    inner = getattr(error, "certificate_error", None) or getattr(error, "os_error", None) or error
    if isinstance(inner, ssl.SSLError):
        words = getattr(inner, "verify_message", None) or inner.reason or str(inner)
    elif isinstance(inner, OSError) and inner.errno is not None and inner.errno in errno.errorcode:
        words = os.strerror(inner.errno)
    else:
        words = getattr(inner, "strerror", None) or str(inner)
    return " ".join(words.split())[:300].rstrip(".") or type(inner).__name__
