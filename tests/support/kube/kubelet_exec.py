"""The kubelet's side of ``kubectl exec``: a WebSocket (RFC 6455) with the output of a command."""

import base64
import hashlib
import json
import struct
import subprocess
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler

_PROTOCOL = "v4.channel.k8s.io"
_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE = 0x82, 0x88
_OUTPUT, _ERRORS, _STATUS = 1, 2, 3
_PIECE = 32 * 1024


def answer_exec(request: BaseHTTPRequestHandler, command: Sequence[str]) -> None:
    """Run it on this machine, as if in the container."""
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
