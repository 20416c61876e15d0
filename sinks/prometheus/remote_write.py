"""Writes the series to a Prometheus that cannot scrape: the page of ``/metrics``, every few seconds.

What the receiver does not take now waits in memory, in order, up to a limit: then the oldest is dropped.
"""

import asyncio
import re
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterable

import aiohttp
from yarl import URL

from dutycycle.contract.backoff import Backoff
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.secret import authorization, headers_now
from dutycycle.kafka.tasks import together
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import LAST_WRITE, PENDING, SINK_UP, WRITES
from sinks.events import SAMPLES_DROPPED, SINK_AWAY
from sinks.prometheus.write_request import Request, WriteRequests

NAME = "remote_write"
_HEADERS = {
    "Content-Type": "application/x-protobuf",
    "Content-Encoding": "snappy",
    "X-Prometheus-Remote-Write-Version": "0.1.0",
    "User-Agent": "dutycycle",
}
_JOB = {"job": "dutycycle-metrics"}
"""The label that a scrape gives: rules go by it."""
_ANSWER_S = 30.0
_LONGEST_WAIT_S = 30.0
_LONGEST_PAUSE_S = 300.0
"""So long the receiver may ask us to wait."""
_SAID = 300
_CREDENTIALS = " (give DUTYCYCLE_REMOTE_WRITE_USERNAME and _PASSWORD(_FILE), or _TOKEN(_FILE))"
_URL = " (DUTYCYCLE_REMOTE_WRITE is the whole URL, with Prometheus such as http://host:9090/api/v1/write)"
_TENANT = " (give DUTYCYCLE_REMOTE_WRITE_HEADERS='X-Scope-OrgID: <tenant>')"
_NO_TENANT = re.compile(r"org ?id|tenant", re.IGNORECASE)
"""What Mimir and Cortex say without a header that names the tenant."""
_HINTS = {401: _CREDENTIALS, 403: _CREDENTIALS, 404: _URL, 405: _URL}


class _AwayError(Exception):
    """Says that the receiver may take the same request later; ``pause_s``: not before."""

    pause_s = 0.0


class _RefusedError(Exception):
    """Says that the receiver will never take the request."""


class RemoteWriter:
    """Sends what ``telemetry`` would show. ``pending``: samples that are not acknowledged yet."""

    def __init__(
        self, settings: Settings, telemetry: Telemetry, wall: Callable[[], float] = time.time
    ) -> None:
        """Raises ``SettingError`` for a CA that cannot be used."""
        try:
            self._tls = ssl.create_default_context(cafile=settings.remote_write_ca)
        except OSError as error:  # an SSLError is one
            where = f"DUTYCYCLE_REMOTE_WRITE_CA={settings.remote_write_ca}"
            raise SettingError(f"{where}: no certificate in PEM: {error}") from error
        self.pending = 0
        url = URL(settings.remote_write or "")
        has_own = settings.remote_write_token or settings.remote_write_username
        self._url = url.with_user(None) if has_own else url  # aiohttp sends those of the URL
        self._place = str(url.origin())
        self._settings = settings
        self._telemetry = telemetry
        self._wall = wall
        self._requests = WriteRequests(_JOB | dict(settings.remote_write_labels))
        self._queue: deque[Request] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()
        metrics = telemetry.metrics
        self._written = metrics.counter(WRITES, sink=NAME)
        metrics.read(PENDING, lambda: {(NAME,): float(self.pending)})
        metrics.read(SINK_UP, lambda: {(NAME,): float(self._away() is None)})
        telemetry.status.ready[NAME] = self._away

    async def run(self) -> None:
        """Collect and send, until cancelled."""
        limit = aiohttp.ClientTimeout(total=_ANSWER_S)
        connector = aiohttp.TCPConnector(ssl=self._tls)
        async with aiohttp.ClientSession(
            connector=connector, timeout=limit, headers=_HEADERS, trust_env=True
        ) as session:
            await together(self._collect_regularly(), self._send_all(session))

    async def _collect_regularly(self) -> None:
        clock = asyncio.get_running_loop().time
        due_s = clock()
        while True:
            self.put(await asyncio.to_thread(self.collect))
            due_s = max(due_s + self._settings.remote_write_interval, clock())
            await asyncio.sleep(due_s - clock())

    def collect(self) -> list[Request]:
        """Return what a scrape would read now; series that it would not find any more are ended."""
        return self._requests.at(round(self._wall() * 1000), self._telemetry.metrics.samples())

    def put(self, requests: Iterable[Request]) -> None:
        """Let them wait to be sent."""
        dropped = 0
        for request in requests:
            self._queue.append(request)
            self.pending += request.samples
            self._bytes += len(request.body)
            while self._bytes > self._settings.remote_write_bytes:
                dropped += self._next().samples
        self._filled.set()
        if dropped:
            detail = f"{self._place} took nothing for so long that DUTYCYCLE_REMOTE_WRITE_BYTES are full"
            self._drop(dropped, detail, "full")

    def _next(self) -> Request:
        request = self._queue.popleft()
        self._bytes -= len(request.body)
        return request

    async def _send_all(self, session: aiohttp.ClientSession) -> None:
        """Send the oldest first, one at a time: a receiver takes the samples of a series in their order."""
        while True:
            await self._filled.wait()
            while self._queue:
                await self._send(session, self._next())
            self._filled.clear()

    async def _send(self, session: aiohttp.ClientSession, request: Request) -> None:
        """Send it until it is taken or refused."""
        backoff = Backoff(longest_s=_LONGEST_WAIT_S)
        while True:
            try:
                await self._post(session, request.body)
            except _AwayError as error:
                detail = f"{self._place} {error}; trying again"
                self._telemetry.raise_condition(SINK_AWAY, NAME, detail)
                await asyncio.sleep(max(error.pause_s, backoff.next_s()))
                continue
            except _RefusedError as error:
                self._drop(request.samples, f"{self._place} {error}", "refused")
            else:
                self.pending -= request.samples
                self._written.inc(request.samples)
                self._telemetry.metrics.gauge(LAST_WRITE, sink=NAME).set(self._wall())
            self._telemetry.clear_condition(SINK_AWAY, NAME, f"{self._place} answers")
            return

    async def _post(self, session: aiohttp.ClientSession, body: bytes) -> None:
        of = self._settings
        header = authorization(of.remote_write_username, of.remote_write_password, of.remote_write_token)
        headers = headers_now(of.remote_write_headers) | ({"Authorization": header} if header else {})
        try:
            async with session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                refusal = (await answer.content.read(_SAID)).decode(errors="replace")
        except aiohttp.ClientSSLError as error:
            hint = "DUTYCYCLE_REMOTE_WRITE_CA is the file with the CA that signed its certificate"
            raise _AwayError(f"has no TLS that we trust: {error}: {hint}") from error
        except TimeoutError as error:
            raise _AwayError(f"did not answer within {_ANSWER_S:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise _AwayError(f"does not answer: {str(error) or type(error).__name__}") from error
        if answer.status < 300:
            return
        hint = _HINTS.get(answer.status, "")
        if hint == _CREDENTIALS and _NO_TENANT.search(refusal):
            hint = _TENANT
        words = " ".join([f"answers HTTP {answer.status}{hint}:", *refusal.split()])
        if answer.status < 500 and answer.status != 429:
            raise _RefusedError(words)
        away = _AwayError(words)
        pause = answer.headers.get("Retry-After", "")
        away.pause_s = min(float(pause), _LONGEST_PAUSE_S) if pause.isdecimal() else 0.0
        raise away

    def _drop(self, samples: int, detail: str, reason: str) -> None:
        self.pending -= samples
        self._telemetry.emit(SAMPLES_DROPPED, detail, count=samples, reason=reason)

    def _away(self) -> str | None:
        return self._telemetry.conditions.get((SINK_AWAY.name, NAME))
