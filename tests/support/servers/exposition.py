"""A page of metrics for Prometheus to scrape, whose text a test changes as it goes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class MetricsPage:
    """``text`` is what the next scrape reads. ``None`` answers 503, as an exporter in trouble does."""

    def __init__(self, text: str) -> None:
        self.text: str | None = text
        self.target = ""
        """``host:port``, as a scrape configuration wants it."""


@contextmanager
def serve_metrics(text: str) -> Iterator[MetricsPage]:
    """Serve ``text`` at ``/metrics`` on a free loopback port until the block ends."""
    page = MetricsPage(text)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(page))
    page.target = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="metrics page")
    thread.start()
    try:
        yield page
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(page: MetricsPage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = (page.text or "").encode()
            self.send_response(503 if page.text is None else 200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """A scrape is no news."""

    return Handler
