"""Runs a command in a container, as ``kubectl exec`` runs it: a WebSocket whose messages begin with a
channel.

https://github.com/kubernetes/apimachinery/blob/master/pkg/util/remotecommand/constants.go
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import orjson

from dutycycle.kube.client import Client
from dutycycle.kube.discovery import POD
from dutycycle.kube.errors import BusyError, KubeError

_PROTOCOL = "v4.channel.k8s.io"
_OUTPUT, _ERRORS, _STATUS = b"\x01", b"\x02", b"\x03"
_SILENCE_S = 60.0
_KEPT = 4096


class CommandFailedError(KubeError):
    """Says that a command could not be started, or has failed: ``code`` is its exit status, None where it
    never ran."""

    def __init__(self, message: str, code: int | None) -> None:
        super().__init__("command", message)
        self.code = code


async def output_of(
    client: Client, namespace: str, pod: str, container: str, command: Sequence[str]
) -> AsyncGenerator[bytes, None]:
    """Yield what a command writes on its standard output, in pieces as they come, to its end. Raises
    ``KubeError``."""
    query = {"container": container, "command": command, "stdout": "true", "stderr": "true"}
    stderr = b""
    path = f"{POD.path(pod, namespace)}/exec"
    async with aclosing(client.frames(path, query, _PROTOCOL, _SILENCE_S)) as frames:
        async for frame in frames:
            channel, content = frame[:1], frame[1:]
            if channel == _OUTPUT and content:
                yield content
            elif channel == _ERRORS:
                stderr = (stderr + content)[:_KEPT]
            elif channel == _STATUS:
                status = orjson.loads(content)
                if status.get("status") == "Success":
                    return
                causes = (status.get("details") or {}).get("causes") or ()
                codes = [int(cause["message"]) for cause in causes if cause.get("reason") == "ExitCode"]
                lines = stderr.decode(errors="replace").strip().splitlines()
                words = lines[0] if codes and lines else str(status.get("message") or "it failed")
                raise CommandFailedError(" ".join(words.split())[:300], codes[0] if codes else None)
    raise BusyError("connection", f"{client.access.address}: the connection ended before the command did")
