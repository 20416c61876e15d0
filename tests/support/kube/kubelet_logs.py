"""The kubelet's side of ``kubectl logs`` and ``exec``: the API server asks over HTTPS, and passes it on."""

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.support.kube.kubelet_exec import answer_exec

_POLL_S = 0.05
LogOf = Callable[[str], tuple[Path, Callable[[], bool]]]
"""Of a pod's name: the file with what it has written, and whether it still writes."""


@contextmanager
def serving_logs(certificate: Path, log_of: LogOf) -> Iterator[int]:
    """On a port of loopback. ``certificate``: without ``.crt`` and ``.key``."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            where = urlsplit(self.path)
            _, what, _, pod, _ = where.path.split("/")
            if what == "exec":
                answer_exec(self, parse_qs(where.query)["command"])
                return
            assert what == "containerLogs"
            file, writes = log_of(pod)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            with file.open("rb") as log:
                more = True
                while more:
                    more = writes()  # before the last read: nothing comes after it
                    self.wfile.write(log.read())
                    self.wfile.flush()
                    time.sleep(_POLL_S)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(f"{certificate}.crt", f"{certificate}.key")
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, name="kubelet logs")
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
