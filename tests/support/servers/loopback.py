"""An HTTP server on loopback that answers as a test says."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

Answer = Callable[[BaseHTTPRequestHandler], tuple[int, str | bytes]]
"""Of a GET or POST request: status and body."""


@contextmanager
def serve_http(answer: Answer) -> Iterator[str]:
    """Answer requests on a free port until the block ends; gives ``host:port``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answer(self)
            body = text.encode() if isinstance(text, str) else text
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; version=0.0.4")  # Prometheus wants it of a page
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
            """A request is no news."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, args=(0.02,), name="loopback")
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
