"""Answers a browser: pages, their scripts and styles, and word that something changed."""

import asyncio
import gzip
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache, partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import ParamSpec, TypeVar

from aiohttp import web

from dutycycle import report
from dutycycle.contract.errors import DutycycleError, NotInstalledError, SettingError
from dutycycle.contract.settings.groups import PREFIX, Settings
from dutycycle.kube.errors import KubeError
from dutycycle.live.source import Source
from dutycycle.telemetry.endpoint import NEARBY, Address, parse
from dutycycle.telemetry.http_runner import runner_of
from dutycycle.web.access import COOKIE, Gate
from dutycycle.web.pages import TABLES, Pages
from dutycycle.web.pools import NodePools
from dutycycle.web.questions import PageError, Query, Viewer
from dutycycle.web.studies.shared import SharedPages, Studies
from sinks.records.query import UnknownNameError

P = ParamSpec("P")
T = TypeVar("T")
_STATIC = Path(__file__).parent / "static"
_PLOTLY = Path(getattr(find_spec("plotly"), "origin", None) or "").parent / "package_data" / "plotly.min.js"
"""Not by its import, which takes memory for good."""
_FILES = {
    **{file.name: file for file in _STATIC.iterdir()},
    **{f"report{ending}": Path(report.__file__).with_name(f"page{ending}") for ending in (".css", ".js")},
    "plotly.js": _PLOTLY,
}
"""All that is given, by name: nothing that is asked for becomes a path."""
_TYPES = {".css": "text/css", ".js": "text/javascript"}
_TABLE_TYPES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
"""By the names of ``dutycycle.tables.formats.FORMATS``."""
_LONGEST = 2048
"""Letters of a question."""
_COMPRESSED = 16_384
"""Bytes from which an answer is compressed for a browser that takes it. The only secret is no part of any."""
_EVERY_S, _PAUSE = 2.0, 50
"""An open page asks for itself anew after so long at the least, and after so many times of what making it
took: it costs a fiftieth of a core at most."""
_KEPT, _LEAST_S, _OF_RECORDS_S, _SHARE, _MOST_S = 64, 1.0, 5.0, 10, 60.0
"""So many pages are kept for who asks next, for so long, those of the records for longer; and for so many
times of what making it took: all who look at one take a tenth of a core at most."""
_CLOSE_S = 1.0
LARGEST = 16 * 1024
"""Bytes of what is sent to the page: a token."""
_FORM = "application/x-www-form-urlencoded"
_MOST_READING = 8
"""Pages that are read from the records at once."""
_AGING_S = 10.0
"""While nothing comes in an open page looks again so often: figures age, and what keeps them away is said."""
_AGAIN_S = 30
"""After so long a page asks again that was one too many."""
_EMPTY = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""An empty style, which Plotly fills with rules by script: no text of a page can be one."""
_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'self'; style-src 'self' {_EMPTY}; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_OF_PAGE = {"Content-Type": "text/html; charset=utf-8"}
_OF_REPORT = {
    **_HEADERS,
    # Colors and places in a report's own charts are attributes; its text cannot make one.
    "Content-Security-Policy": f"{_HEADERS['Content-Security-Policy']}; style-src-attr 'unsafe-inline'",
}
_TITLES = {400: "This cannot be shown", 403: "Not allowed", 404: "Not there", 429: "Too much at once"}
_AWAY = "Cannot be answered now"
Handler = Callable[[web.Request, Viewer], Awaitable[web.StreamResponse]]
Page = Callable[[Query, Viewer], str]


class WebPage:
    """Serves the page of a ``source``. Each address is one level deep, so that it works behind any path."""

    def __init__(
        self,
        source: Source,
        settings: Settings,
        listen: str | None = None,
        refused: Callable[[KubeError], object] = lambda _: None,
    ) -> None:
        """Make what answers at the address ``listen``, that of ``serve``, or at the page's own. ``refused``
        hears of what the API server refuses. Raises ``SettingError`` for an address that others reach while
        nobody is asked who he is."""
        self._source, self._address = source, parse(listen or settings.web or "")
        self._setting = f"{PREFIX}{'WEB' if listen is None else 'SERVE_LISTEN'}={self._address}"
        self.gate = Gate(settings, lambda: asyncio.to_thread(self._pages.namespaces), refused)
        if self._address.host not in NEARBY and not self.gate.asks:
            raise SettingError(
                f"{self._setting}: others can ask there: give a file with a token, DUTYCYCLE_WEB_TOKEN, or "
                "DUTYCYCLE_WEB_PROXIES with DUTYCYCLE_WEB_ALLOW, or DUTYCYCLE_WEB_KUBERNETES=on, "
                "or listen on 127.0.0.1"
            )
        self._pools = NodePools(settings.web_pools, refused)
        self._pages = Pages(source, settings, self._pools)
        self._studies = Studies(settings)
        self._of_now = SharedPages(_KEPT, _LEAST_S, _SHARE, _MOST_S)
        self._of_records = SharedPages(_KEPT, _OF_RECORDS_S, _SHARE, _MOST_S)
        self._took_s: dict[str, float] = {}
        """By path, what the page's last making took."""
        self._most_open = settings.web_open
        self._reading, self._open = asyncio.Semaphore(_MOST_READING), 0

    def routes(self) -> list[web.RouteDef]:
        """Give what is answered at which path."""
        pages: dict[str, Page] = {
            "about": self._pages.about, "idle": self._pages.idle,
            **{name: partial(self._pages.table, name) for name in TABLES},
        }  # fmt: skip
        handlers: dict[str, Handler] = {
            "": partial(_raise, partial(web.HTTPSeeOther, "fleet")),
            "fleet": self._shared(self._fleet, self._of_now),
            "subject": self._shared(self._subject, self._of_now),
            **{f"usage.{form}": partial(self._usage_file, form) for form in _TABLE_TYPES},
            "usage": self._html(self._pages.usage, reads_records=True), "changes": self._changes,
            "report": self._report,
            "history": self._html(self._pages.history, reads_records=True),
            "job": self._html(self._pages.job, reads_records=True),
            **{name: self._html(page) for name, page in pages.items()},
        }  # fmt: skip
        for_all = {"login": self._login, "static/{name}": _static}
        return [
            *(
                web.get(f"/{path}", partial(self._guard, partial(self._known, handler)))
                for path, handler in handlers.items()
            ),
            *(web.get(f"/{path}", partial(self._guard, handler)) for path, handler in for_all.items()),
            web.post("/login", partial(self._guard, self._login)),
        ]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Answer while the block runs; gives the page's address. Raises ``SettingError`` for one that cannot
        be had."""
        await self.open()
        runner = runner_of(LARGEST, _CLOSE_S)
        runner.app.add_routes(self.routes())
        runner.app.router.add_get("/{other:.*}", partial(self._guard, partial(_raise, web.HTTPNotFound)))
        await runner.setup()
        try:
            address = self._address
            try:
                await web.TCPSite(runner, address.host, address.port).start()
            except OSError as error:
                raise SettingError(f"{self._setting}: {error.strerror}: give another host:port") from error
            yield f"http://{Address(address.host, runner.addresses[0][1])}/"
        finally:
            await runner.cleanup()
            await self.close()

    async def open(self) -> None:
        """Find the API server, where it is asked who may see what, or for pools. Raises ``SettingError``."""
        await self.gate.open()
        await self._pools.open()

    async def close(self) -> None:
        """Disconnect from it."""
        await self._pools.close()
        await self.gate.close()

    async def _guard(
        self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]], request: web.Request
    ) -> web.StreamResponse:
        """Answer, whatever goes wrong, with the headers that every answer has."""
        try:
            response = await self._answered(handler, request)
        except PageError as error:
            response = self._failure(error.status, _TITLES.get(error.status, _AWAY), str(error))
        except UnknownNameError as error:
            response = self._failure(400, _TITLES[400], str(error))
        except NotInstalledError as error:
            response = self._failure(501, "Not installed here", str(error))
        except DutycycleError as error:
            response = self._failure(503, "The records cannot be read", str(error))
        except web.HTTPException as error:
            if error.status < 400:
                error.headers.update(_HEADERS)
                raise
            response = self._failure(error.status, error.reason, request.path)
        if not response.prepared:
            body = response.body if isinstance(response, web.Response) else None
            is_packed = "Content-Encoding" in response.headers
            if isinstance(body, bytes) and len(body) > _COMPRESSED and not is_packed:
                response.enable_compression()
            for name, value in _HEADERS.items():
                response.headers.setdefault(name, value)
        return response

    async def _answered(
        self, handler: Callable[[web.Request], Awaitable[web.StreamResponse]], request: web.Request
    ) -> web.StreamResponse:
        # A page of somebody else whose name leads here could read this one else (DNS rebinding).
        if not self.gate.asks and request.url.host not in NEARBY:
            return self._failure(403, "Not from here", f"asked for {request.host}: ask for 127.0.0.1")
        if len(request.path_qs) > _LONGEST:
            return self._failure(414, "Too long", f"a question has at most {_LONGEST} letters")
        return await handler(request)

    async def _known(self, handler: Handler, request: web.Request) -> web.StreamResponse:
        """Answer who may be answered, and ask others to sign in."""
        viewer = await self.gate.viewer(request)
        if viewer is not None:
            return await handler(request, viewer)
        if self.gate.takes_tokens and "Authorization" not in request.headers:
            raise web.HTTPSeeOther("login")
        return self._failure(401, "Who are you?", "Ask by the proxy that says who asks, or with a token.")

    def _failure(self, status: int, title: str, text: str) -> web.Response:
        page = self._pages.failure(title, text)
        return web.Response(status=status, text=page, content_type="text/html")

    async def _login(self, request: web.Request) -> web.StreamResponse:
        """Ask for a token, and take the one that is sent."""
        if request.method != "POST":
            return web.Response(text=self._pages.login(refused=False), content_type="text/html")
        if request.content_type != _FORM:  # others are read in ways that fail in ways of their own
            raise web.HTTPUnsupportedMediaType
        try:
            form = await request.post()
        except (LookupError, UnicodeDecodeError) as error:
            raise PageError("the form is not in letters of UTF-8") from error
        session = await self.gate.sign_in(str(form.get("token", "")).strip())
        if session is None:
            return web.Response(status=403, text=self._pages.login(refused=True), content_type="text/html")
        answer = web.HTTPSeeOther("fleet")
        answer.set_cookie(
            COOKIE, session, httponly=True, samesite="Strict", secure=request.url.scheme == "https"
        )
        raise answer

    def _html(self, page: Page, *, reads_records: bool = False) -> Handler:
        """Answer with a page. It is made on the loop that feeds the state, so that it is of one moment; one
        that ``reads_records`` beside it, as other roles answer on the loop, too."""

        async def make(query: Query, viewer: Viewer) -> str:
            return await self._read(page, query, viewer) if reads_records else page(query, viewer)

        return self._shared(make, self._of_records if reads_records else self._of_now)

    def _shared(self, make: Callable[[Query, Viewer], Awaitable[str]], pages: SharedPages) -> Handler:
        """Answer with what ``make`` gives, made once for all who ask the same and may see the same."""

        async def answer(request: web.Request, viewer: Viewer) -> web.Response:
            key = request.path, tuple(request.query.items()), viewer.scope
            made = await pages.page(key, lambda: make(request.query, viewer))
            self._took_s[request.path] = made.took_s
            return await _unpacked(request, made.packed, _OF_PAGE)

        return answer

    async def _read(self, answer: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Give an answer from the records, which is read beside the loop."""
        async with self._reading:
            return await asyncio.to_thread(answer, *args, **kwargs)

    async def _fleet(self, query: Query, viewer: Viewer) -> str:
        """Make the grid; records are read beside the loop, on which other roles answer, too."""
        await self._read(self._pages.ledger.read_today)
        return self._pages.fleet(query, viewer)

    async def _subject(self, query: Query, viewer: Viewer) -> str:
        """Make the page of a GPU, node, pod or job; records are read beside the loop."""
        hardware = self._pages.hardware_of(query)
        past = None
        if hardware is not None:
            past = await self._read(self._pages.read_past, hardware, query, viewer)
        return self._pages.subject(query, viewer, past)

    async def _report(self, request: web.Request, viewer: Viewer) -> web.Response:
        """Answer with the report of a job, or the comparison of two, which a process of its own makes."""
        key, question = await self._read(self._pages.report_of, request.query, viewer)
        made = await self._studies.page(key, question)
        headers = {**_OF_PAGE, **_OF_REPORT, "X-Made": f"{made.at_s:.3f}"}
        return await _unpacked(request, made.packed, headers)

    async def _usage_file(self, form: str, request: web.Request, viewer: Viewer) -> web.Response:
        """Answer with the usage as a file of one of ``_TABLE_TYPES``."""
        body = await self._read(self._pages.usage_file, form, request.query, viewer)
        name = f'attachment; filename="usage.{form}"'
        return web.Response(
            body=body, headers={"Content-Type": _TABLE_TYPES[form], "Content-Disposition": name}
        )

    async def _changes(self, request: web.Request, _: Viewer) -> web.StreamResponse:
        """Say when there is something new for the page ``of``, as server-sent events, until the browser
        leaves."""
        path = f"/{request.query.get('of', '')}"
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        if self._open >= self._most_open:
            # A browser shows no status of a stream, and asks again after what is told it here.
            await response.prepare(request)
            await response.write(b"retry: %d\nevent: full\ndata: %d\n\n" % (1000 * _AGAIN_S, self._most_open))
            return response
        await response.prepare(request)
        # What is shared may be of a moment before: after the last change it is told once more.
        before, last, self._open = None, None, self._open + 1
        try:
            while not self._source.stop.is_set():
                ticks, age = self._source.state.ticks, time.monotonic() // _AGING_S
                if (now := (ticks, age, *self._source.degraded())) != before:
                    before, last = last, now
                    await response.write(b"data: %d\n\n" % ticks)
                await asyncio.sleep(max(_EVERY_S, _PAUSE * self._took_s.get(path, 0.0)))
        except ConnectionResetError:
            return response  # the browser has left
        finally:
            self._open -= 1
        return response


async def _raise(error: Callable[[], web.HTTPException], *_: object) -> web.StreamResponse:
    raise error()


async def _unpacked(request: web.Request, packed: bytes, headers: Mapping[str, str]) -> web.Response:
    """Answer with what is kept as it is, or as text to who cannot unpack it."""
    headers = {**headers, "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("Accept-Encoding", ""):
        return web.Response(body=packed, headers={**headers, "Content-Encoding": "gzip"})
    return web.Response(body=await asyncio.to_thread(gzip.decompress, packed), headers=headers)


async def _static(request: web.Request) -> web.Response:
    """Give our style and script, and the charts' library from its own package; to who has it, that it is the
    same."""
    file = _FILES.get(request.match_info["name"])
    if file is None or not file.is_file():
        raise web.HTTPNotFound
    packed, tag = await asyncio.to_thread(_packed_file, file)
    headers = {
        "Content-Type": f"{_TYPES[file.suffix]}; charset=utf-8", "Cache-Control": "no-cache", "ETag": tag,
    }  # fmt: skip
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers={**headers, "Vary": "Accept-Encoding"})
    return await _unpacked(request, packed, headers)


@cache
def _packed_file(file: Path) -> tuple[bytes, str]:
    """Give a file packed, and a tag that changes when it does; read once in the life of the process."""
    body = file.read_bytes()
    return gzip.compress(body), f'"{sha256(body).hexdigest()[:32]}"'
