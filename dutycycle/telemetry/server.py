"""Runs a small HTTP server in threads of its own: it answers even while the event loop is blocked.

It serves GET and HEAD of a few pages, one request per connection. At most ``MOST`` connections are open,
each for ``LONGEST_S`` and up to ``_POLL_S`` more, and a new one takes the place of the oldest: a client that
is slow, or says nothing, keeps nobody else from an answer.
"""

import contextlib
import errno
import hmac
import logging
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.settings.secret import Secret
from dutycycle.telemetry.certificate import Certificate
from dutycycle.telemetry.endpoint import Address
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.metrics import CONTENT_TYPE

MOST = 8
LONGEST_S = 5.0
_POLL_S = 2.0
_TEXT = "text/plain; charset=utf-8"
_LONGEST_LINE = 1000
_LOG = logging.getLogger("dutycycle.health")


class HttpAnswer(NamedTuple):
    """Holds an HTTP status, a content type and a body."""

    status: int
    kind: str
    body: bytes


class HttpPages:
    """Answers with the pages of one process. ``token``: a bearer token that ``/metrics`` wants.

    The others want none: the kubelet has no token for its probes.
    """

    def __init__(self, telemetry: Telemetry, token: Secret | None = None) -> None:
        self._token = token
        metrics = telemetry.metrics
        status = telemetry.status
        self._pages: dict[str, Callable[[], HttpAnswer]] = {
            "/healthz": lambda: _verdict("healthy", status.liveness_error()),
            "/readyz": lambda: _verdict(
                f"ready: {status.remark()}".removesuffix(": "), status.readiness_error()
            ),
            "/metrics": lambda: HttpAnswer(200, CONTENT_TYPE, metrics.page()),
        }

    def at(self, target: str, authorization: str = "") -> HttpAnswer:
        """Return the page of a request's target; a query is ignored. ``authorization``: the header of that
        name."""
        path = target.partition("?")[0]
        page = self._pages.get(path)
        if page is None:
            return text(404, "there are " + ", ".join(self._pages))
        if path == "/metrics" and self._token is not None:
            scheme, _, token = authorization.partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(
                token.strip().encode(), self._token.now().encode()
            ):
                return text(401, "give the bearer token of DUTYCYCLE_LISTEN_TOKEN")
        return page()


def _verdict(good: str, wrong: str | None) -> HttpAnswer:
    return text(200, good) if wrong is None else text(503, wrong)


def text(status: int, line: str) -> HttpAnswer:
    """Return one line."""
    return HttpAnswer(status, _TEXT, (" ".join(line.split())[:_LONGEST_LINE] + "\n").encode())


class ListenError(DutycycleError):
    """Says why an address cannot be had. ``taken``: because somebody else has it."""

    def __init__(self, address: Address, error: OSError) -> None:
        super().__init__(f"{address}: {error.strerror or error}")
        self.taken = error.errno == errno.EADDRINUSE


class Server:
    """Listens from the start on, answers between ``start`` and ``close``."""

    def __init__(self, address: Address, pages: HttpPages, certificate: Certificate | None = None) -> None:
        """Listen, over TLS with a ``certificate``, else plain. Raises ``ListenError``."""
        try:
            addresses = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
            family, *_, place = addresses[0]
            self._server = _Server(family, place, pages, certificate)
        except OSError as error:
            raise ListenError(address, error) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="health", daemon=True
        )

    @property
    def address(self) -> Address:
        """Return where it listens, with the port that it was given."""
        host, port = self._server.server_address[:2]
        return Address(str(host), int(port))

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        # Where the system lets it (Linux), this wakes the thread, which else looks only every ``_POLL_S``.
        with contextlib.suppress(OSError):
            self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(socketserver.TCPServer):
    allow_reuse_address = True  # after a restart, connections of before may still linger
    request_queue_size = 64

    def __init__(self, family: int, place: Any, pages: HttpPages, certificate: Certificate | None) -> None:
        self.address_family = family
        self.pages = pages
        self._certificate = certificate
        self._unusable: str | None = None
        self._open: dict[socket.socket, float] = {}
        self._lock = threading.Lock()
        self._slots = threading.BoundedSemaphore(MOST)
        super().__init__(place, _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for each connection, within the bound."""
        if not self._slots.acquire(blocking=False):
            self._hang_up(time.monotonic(), most=MOST - 1)
            if not self._slots.acquire(timeout=1.0):
                self.shutdown_request(request)
                return
        if self._certificate is not None:  # the handshake is in the connection's own thread
            request = self._certificate.context.wrap_socket(
                request, server_side=True, do_handshake_on_connect=False
            )
        with self._lock:
            self._open[request] = time.monotonic()
        threading.Thread(
            target=self._serve, args=(request, client_address), name="health answer", daemon=True
        ).start()

    def service_actions(self) -> None:
        """Close connections that last too long and renew the certificate; called every ``_POLL_S``."""
        self._hang_up(time.monotonic() - LONGEST_S)
        if self._certificate is not None:
            unusable = self._certificate.renew()
            if unusable is not None and unusable != self._unusable:
                _LOG.warning("a renewed certificate cannot be used, the one before is kept: %s", unusable)
            self._unusable = unusable

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing of a client that went away, which is no fault of ours, but for debugging."""
        _LOG.debug("answering %s failed", client_address, exc_info=True)

    def _serve(self, request: Any, client_address: Any) -> None:
        try:
            if isinstance(request, ssl.SSLSocket):
                request.settimeout(LONGEST_S)
                request.do_handshake()
            self.finish_request(request, client_address)
        except Exception:  # noqa: BLE001 - one answer less, and the server goes on
            self.handle_error(request, client_address)
        finally:
            with self._lock:
                self._open.pop(request, None)
            self.shutdown_request(request)
            self._slots.release()

    def _hang_up(self, before: float, most: int = 0) -> None:
        """Close the oldest of the connections that were opened ``before``, all but ``most``."""
        with self._lock:
            old = [connection for connection, since in self._open.items() if since <= before]
            for connection in old[: len(old) - most]:
                try:
                    connection.shutdown(socket.SHUT_RDWR)  # its thread wakes up, and sees the end
                except OSError:
                    continue  # it has ended by itself


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = LONGEST_S
    error_content_type = "text/plain; charset=utf-8"
    error_message_format = "%(message)s\n"

    def do_GET(self) -> None:
        try:
            page = self.server.pages.at(self.path, self.headers.get("Authorization") or "")
        except Exception as error:  # noqa: BLE001 - whoever asks should hear of it
            _LOG.exception("%s cannot be shown", self.path)
            page = text(500, f"{type(error).__name__}: {error}")
        self._send(page)

    do_HEAD = do_GET  # noqa: N815 - the base class's name

    def do_POST(self) -> None:
        self._send(text(405, "GET and HEAD are all that there is"), ("Allow", "GET, HEAD"))

    do_PUT = do_PATCH = do_DELETE = do_OPTIONS = do_POST  # noqa: N815 - the base class's names

    def _send(self, page: HttpAnswer, *more: tuple[str, str]) -> None:
        self.send_response(page.status)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.send_header("Cache-Control", "no-store")
        if page.status == 401:
            self.send_header("WWW-Authenticate", "Bearer")
        for header in more:
            self.send_header(*header)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(page.body)

    def version_string(self) -> str:
        """Tell who answers; which Python that is, is nobody's business."""
        return "dutycycle"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Log nothing: a scrape is not worth a line."""
