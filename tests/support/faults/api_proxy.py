"""A proxy before the real API server that does to requests what a test has lined up."""

import ssl

import aiohttp
from aiohttp import web

from tests.support.fakes.api_server import FakeApi
from tests.support.servers.kube.client import Access

_HEADERS = ("Authorization", "Content-Type", "Accept")


class ApiProxy(FakeApi):
    """Passes on to the real server what gets no trouble, and its answers back."""

    def __init__(self, real: Access) -> None:
        super().__init__()
        self._real = real
        self._session: aiohttp.ClientSession | None = None

    async def stop(self) -> None:
        """Go away; the real server stays."""
        await super().stop()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _served(self, body: bytes, request: web.Request) -> web.Response:
        if self._session is None:
            tls = ssl.create_default_context(cafile=str(self._real.authority))
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls))
        headers = {name: request.headers[name] for name in _HEADERS if name in request.headers}
        url = f"{self._real.url}{request.path_qs}"
        # To an empty body aiohttp would add a Content-Type, which the server refuses (415).
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            if request.method == "PATCH" and answer.status == 200:
                self.writers.append(("", request.path))
            kind = {"Content-Type": answer.headers["Content-Type"]}
            return web.Response(status=answer.status, body=await answer.read(), headers=kind)
