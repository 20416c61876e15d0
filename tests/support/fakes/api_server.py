"""A fake of the Kubernetes API server over real HTTP or HTTPS: it plays whatever trouble a test has lined up.

It merges patches into a few objects, lists them page by page, and does to a request what the test says. Real
validation, conflicts and permissions are not here: what it accepts proves nothing about Kubernetes.
"""

import asyncio
import json
import socket
import ssl
import struct
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from kube.client import Client, Limits
from kube.config import Access
from kube.objects import ApiServer

POD = "/api/v1/namespaces/default/pods/pod-of-uid-1"
NODE = "/api/v1/nodes/gpu-a"
MPIJOB = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs/bert"
_VERBS = ["get", "list", "patch", "watch"]
GROUPS = {
    "/api/v1": [("Pod", "pods", True), ("Pod", "pods/status", True), ("Node", "nodes", False)],
    "/apis/kubeflow.org/v2beta1": [("MPIJob", "mpijobs", True)],
}
_PAGE = 3
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER of 0 s: closing sends a reset."""


@dataclass
class Trouble:
    """What comes instead of an answer, or before it.

    A status with a body; silence for ``delay_s``, or until ``gate`` is set; a connection that is ``cut`` or
    ``reset``, or ``after`` it did what was asked; a body that is ``torn`` in the middle, or comes drop by
    drop, ``drip_s`` apart. ``method`` is whom it concerns, ``path`` a part of it.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"kind":"Status","message":"as the test wished"}'
    delay_s: float = 0.0
    gate: asyncio.Event | None = None
    cut: bool = False
    reset: bool = False
    after: bool = False
    torn: bool = False
    drip_s: float = 0.0
    method: str = "PATCH"
    path: str = ""

    def concerns(self, request: web.Request) -> bool:
        """Whether the request gets it."""
        return self.method in (request.method, "*") and self.path in request.path


class FakeApi:
    """Serves on a loopback port. ``objects`` maps a path to metadata; ``seen`` lists method and path.

    ``writers`` lists, for each patch that was taken, the token it came with and the path.
    """

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.groups = {path: list(kinds) for path, kinds in GROUPS.items()}
        self.trouble: deque[Trouble] = deque()
        self.always: Trouble | None = None
        self.tokens: set[str] | None = None
        """Who is let in; None for everybody."""
        self.seen: list[tuple[str, str]] = []
        self.writers: list[tuple[str, str]] = []
        self.patches: list[dict[str, Any]] = []
        self.content_types: set[str] = set()
        self._runner: web.AppRunner | None = None
        self._tls: ssl.SSLContext | None = None
        self.port = 0

    async def start(self, tls: ssl.SSLContext | None = None) -> None:
        """Listen; again on the same port after ``stop``."""
        self._tls = tls or self._tls
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Go away."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    def client(self, timeout_s: float = 5.0, requests_per_s: float = 1000.0) -> ApiServer:
        """Our client, pointed at it."""
        return ApiServer(Client(Access(self.url), limits=Limits(timeout_s, requests_per_s)))

    def add(self, path: str, uid: str = "", **annotations: str) -> dict[str, Any]:
        """An object; ``__`` in an annotation's name stands for ``/``."""
        named = {name.replace("__", "/"): value for name, value in annotations.items()}
        self.objects[path] = {"uid": uid, "annotations": named}
        return self.objects[path]

    def count(self, method: str) -> int:
        """How many requests of a method came, discovery not counted."""
        return sum(one == method and path not in self.groups for one, path in self.seen)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path))
        if self.tokens is not None and _token(request) not in self.tokens:
            return _status(401, "Unauthorized")
        trouble = self._next_trouble(request)
        if trouble is None:
            return await self._served(await request.read(), request)
        await asyncio.sleep(trouble.delay_s)
        if trouble.gate is not None:
            await trouble.gate.wait()
        answer = await self._served(await request.read(), request) if trouble.after else None
        if trouble.cut or trouble.reset:
            _break(request, reset=trouble.reset)
        if trouble.status:
            answer = web.Response(status=trouble.status, headers=trouble.headers, text=trouble.body)
        if answer is None:
            answer = await self._served(await request.read(), request)
        return await _slowly(request, answer, trouble) if trouble.torn or trouble.drip_s else answer

    def _next_trouble(self, request: web.Request) -> Trouble | None:
        if self.always is not None and self.always.concerns(request):
            return self.always
        if self.trouble and self.trouble[0].concerns(request):
            return self.trouble.popleft()
        return None

    async def _served(self, body: bytes, request: web.Request) -> web.Response:
        if request.path in self.groups:
            kinds = [
                {"kind": k, "name": n, "namespaced": ns, "verbs": _VERBS}
                for k, n, ns in self.groups[request.path]
            ]
            return web.json_response({"resources": kinds})
        if request.path == "/api":
            return web.json_response({"versions": ["v1"]})
        if request.path == "/apis" or (request.path.count("/") == 2 and request.path.startswith("/apis/")):
            return self._discovery(request.path)
        if request.path in self.objects:
            return self._object(body, request)
        return self._list(request) or _status(404, "not found")

    def _discovery(self, path: str) -> web.Response:
        """All groups, or the versions of one."""
        versions: dict[str, list[str]] = {}
        for version in (one.removeprefix("/apis/") for one in self.groups if one.startswith("/apis/")):
            versions.setdefault(version.split("/")[0], []).append(version)
        groups = {
            name: {
                "name": name,
                "versions": [{"groupVersion": one} for one in found],
                "preferredVersion": {"groupVersion": found[0]},
            }
            for name, found in versions.items()
        }
        if path == "/apis":
            return web.json_response({"groups": list(groups.values())})
        name = path.removeprefix("/apis/")
        return web.json_response(groups[name]) if name in groups else _status(404, "not found")

    def _list(self, request: web.Request) -> web.Response | None:
        """The objects of a collection, three at a time."""
        begin, _, plural = request.path.rpartition("/")
        if not any(begin.startswith(group) for group in self.groups):
            return None
        within = f"{begin}/" if "/namespaces/" in begin else f"{begin}/namespaces/"
        found = [
            path for path in sorted(self.objects)
            if path.split("/")[-2] == plural and (path.startswith((within, f"{begin}/{plural}/")))
        ]  # fmt: skip
        if not any(name == plural for kinds in self.groups.values() for _, name, _ in kinds):
            return None
        first = int(request.query.get("continue") or 0)
        items = [{"metadata": self._metadata(path)} for path in found[first : first + _PAGE]]
        more = str(first + _PAGE) if first + _PAGE < len(found) else ""
        return web.json_response({"kind": "List", "metadata": {"continue": more}, "items": items})

    def _metadata(self, path: str) -> dict[str, Any]:
        parts = path.split("/")
        namespace = {"namespace": parts[-3]} if "namespaces" in parts else {}
        return {"name": parts[-1], **namespace, **self.objects[path]}

    def _object(self, body: bytes, request: web.Request) -> web.Response:
        metadata = self.objects[request.path]
        if request.method == "PATCH":
            self.content_types.add(request.headers["Content-Type"])
            patch = json.loads(body)["metadata"]
            self.patches.append(patch)
            if patch.get("uid", metadata["uid"]) != metadata["uid"]:
                return _status(422, "metadata.uid: field is immutable")
            merged = {**metadata["annotations"], **patch["annotations"]}
            metadata["annotations"] = {k: v for k, v in merged.items() if v is not None}
            self.writers.append((_token(request), request.path))
        return web.json_response({"kind": "Thing", "metadata": metadata})


def _status(status: int, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "message": message}, status=status)


def _token(request: web.Request) -> str:
    return request.headers.get("Authorization", "").removeprefix("Bearer ")


def _break(request: web.Request, *, reset: bool) -> None:
    transport = request.transport
    if transport is None:
        return
    if reset:
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        transport.abort()
    else:
        transport.close()


async def _slowly(request: web.Request, answer: web.Response, trouble: Trouble) -> web.StreamResponse:
    """The answer drop by drop; ``torn``: only its first half."""
    body = answer.body if isinstance(answer.body, bytes) else b""
    stream = web.StreamResponse(status=answer.status, headers={"Content-Length": str(len(body))})
    await stream.prepare(request)
    end = len(body) // 2 if trouble.torn else len(body)
    step = max(1, len(body) // 10)
    with suppress(ConnectionError):  # whoever asked has been killed
        for begin in range(0, end, step):
            await stream.write(body[begin : min(begin + step, end)])
            await asyncio.sleep(trouble.drip_s)
    if trouble.torn:
        _break(request, reset=False)
    return stream


def written(api: FakeApi, path: str) -> dict[str, Any]:
    """Our annotations on an object, parsed."""
    found = api.objects[path]["annotations"]
    return {k.split("/")[1]: json.loads(v) for k, v in found.items() if k.startswith("dutycycle.io/")}
