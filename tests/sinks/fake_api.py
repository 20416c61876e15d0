"""A fake of the Kubernetes API server, for the retry logic only: it does whatever a test tells it to.

It merges patches into a few objects and answers a request with trouble where the test has lined some up.
Real validation, conflicts and permissions are not here: what it accepts proves nothing about Kubernetes.
"""

import asyncio
import json
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from kubernetes.aio.client import Configuration

from sinks.kube import Kube

POD = "/api/v1/namespaces/default/pods/pod-of-uid-1"
NODE = "/api/v1/nodes/gpu-a"
_GROUPS = {
    "/api/v1": [("Pod", "pods", True), ("Pod", "pods/status", True), ("Node", "nodes", False)],
    "/apis/kubeflow.org/v2beta1": [("MPIJob", "mpijobs", True)],
}


@dataclass
class Trouble:
    """What comes instead of an answer: a status, or silence for ``delay_s``, or a cut connection."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"kind":"Status","message":"as the test wished"}'
    delay_s: float = 0.0
    cut: bool = False
    method: str = "PATCH"


class FakeApi:
    """Serves on a loopback port. ``objects`` maps a path to metadata; ``seen`` lists method and path."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.trouble: deque[Trouble] = deque()
        self.always: Trouble | None = None
        self.seen: list[tuple[str, str]] = []
        self.patches: list[dict[str, Any]] = []
        self.content_types: set[str] = set()
        self._runner: web.AppRunner | None = None
        self.port = 0

    async def start(self) -> None:
        """Listen; again on the same port after ``stop``."""
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Go away."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def client(self, timeout_s: float = 5.0) -> Kube:
        """Our client, pointed at it."""
        configuration = Configuration()
        configuration.host = f"http://127.0.0.1:{self.port}"
        return Kube(configuration, timeout_s=timeout_s)

    def add(self, path: str, uid: str = "", **annotations: str) -> dict[str, Any]:
        """An object; ``_`` in an annotation's name stands for ``/`` the first time."""
        named = {name.replace("__", "/"): value for name, value in annotations.items()}
        self.objects[path] = {"uid": uid, "annotations": named}
        return self.objects[path]

    def count(self, method: str) -> int:
        """How many requests of a method came, discovery not counted."""
        return sum(one == method and path not in _GROUPS for one, path in self.seen)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append((request.method, request.path))
        if request.path in _GROUPS:
            kinds = [{"kind": k, "name": n, "namespaced": ns} for k, n, ns in _GROUPS[request.path]]
            return web.json_response({"resources": kinds})
        trouble = self._next_trouble(request.method)
        if trouble is not None:
            await asyncio.sleep(trouble.delay_s)
            if trouble.cut and request.transport is not None:
                request.transport.close()
            if trouble.status:
                return web.Response(status=trouble.status, headers=trouble.headers, text=trouble.body)
        return await self._object(request)

    def _next_trouble(self, method: str) -> Trouble | None:
        if self.always is not None and self.always.method in (method, "*"):
            return self.always
        if self.trouble and self.trouble[0].method in (method, "*"):
            return self.trouble.popleft()
        return None

    async def _object(self, request: web.Request) -> web.Response:
        metadata = self.objects.get(request.path)
        if metadata is None:
            return web.json_response({"kind": "Status", "message": "not found"}, status=404)
        if request.method == "PATCH":
            self.content_types.add(request.headers["Content-Type"])
            patch = json.loads(await request.read())["metadata"]
            self.patches.append(patch)
            if patch.get("uid", metadata["uid"]) != metadata["uid"]:
                return web.json_response(
                    {"kind": "Status", "message": "metadata.uid: field is immutable"}, status=422
                )
            merged = {**metadata["annotations"], **patch["annotations"]}
            metadata["annotations"] = {k: v for k, v in merged.items() if v is not None}
        return web.json_response({"kind": "Thing", "metadata": metadata})


def written(api: FakeApi, path: str) -> dict[str, Any]:
    """Our annotations on an object, parsed."""
    found = api.objects[path]["annotations"]
    return {k.split("/")[1]: json.loads(v) for k, v in found.items() if k.startswith("dutycycle.io/")}
