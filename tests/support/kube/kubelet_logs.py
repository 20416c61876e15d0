"""The kubelet's side of ``kubectl logs`` and ``exec``: the API server asks over HTTPS, and passes it on."""

import base64
import hashlib
import json
import ssl
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

_PROTOCOL = "v4.channel.k8s.io"
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE = 0x82, 0x88
_OUTPUT, _ERRORS, _STATUS = 1, 2, 3
_PIECE = 32 * 1024


def answer_exec(request: BaseHTTPRequestHandler, command: Sequence[str]) -> None:
    """Run it on this machine, as if in the container: a WebSocket (RFC 6455) with its output."""
    assert _PROTOCOL in request.headers["Sec-WebSocket-Protocol"]
    key = request.headers["Sec-WebSocket-Key"].encode()
    request.send_response(101)
    request.send_header("Upgrade", "websocket")
    request.send_header("Connection", "Upgrade")
    request.send_header(
        "Sec-WebSocket-Accept",
        base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode(),
    )
    request.send_header("Sec-WebSocket-Protocol", _PROTOCOL)
    request.end_headers()
    request.close_connection = True

    def send(kind: int, content: bytes) -> None:
        size = len(content)
        length = bytes([size]) if size < 126 else struct.pack("!BH", 126, size)
        request.wfile.write(bytes([kind]) + length + content)

    done = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with done:
        assert done.stdout is not None
        assert done.stderr is not None
        while piece := done.stdout.read(_PIECE):
            send(_BINARY, bytes([_OUTPUT]) + piece)
        send(_BINARY, bytes([_ERRORS]) + done.stderr.read(_PIECE))
    status = {"metadata": {}, "status": "Success"} if not done.returncode else {
        "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {done.returncode}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(done.returncode)}]},
    }  # fmt: skip
    send(_BINARY, bytes([_STATUS]) + json.dumps(status).encode())
    send(_CLOSE, struct.pack("!H", 1000))


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
