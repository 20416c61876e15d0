"""A fake of the Kubernetes API server over real HTTP or HTTPS: it plays whatever trouble a test has lined up.

It merges patches into a few objects, lists them page by page, lists and watches pods, and does to a request
what the test says. Real validation, conflicts and permissions are not here: what it accepts proves nothing
about Kubernetes.
"""

import asyncio
import json
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from dutycycle.kube.client import Client, Limits
from dutycycle.kube.config import Access
from dutycycle.kube.objects import ApiServer
from dutycycle.kubectl.annotations import ours
from tests.support.servers.kafka.certificates import Certificates

Json = dict[str, Any]


class WatchedPods:
    """State that a test changes from its own thread."""

    def __init__(self) -> None:
        self.second_s = 1.0
        """How long a second of a watch lasts."""
        self._version = 100
        self._oldest = 0
        self._pods: dict[str, Json] = {}
        self._events: list[tuple[int, Json]] = []
        self._generation = 0
        self._changed: asyncio.Condition
        self._loop: asyncio.AbstractEventLoop

    def begin(self) -> None:
        """Belong to the running loop."""
        self._changed, self._loop = asyncio.Condition(), asyncio.get_running_loop()

    def put(self, pod: Json) -> None:
        """Create or change a pod."""
        kind = "MODIFIED" if pod["metadata"]["uid"] in self._pods else "ADDED"
        self._do(lambda: self._record(kind, pod))

    def delete(self, uid: str) -> None:
        """Delete a pod."""
        self._do(lambda: self._record("DELETED", self._pods[uid]))

    def vanish(self, uid: str) -> None:
        """Delete a pod while nobody hears of it."""
        self._do(lambda: self._pods.pop(uid))

    def bookmark(self) -> None:
        """Tell watchers the version without an event."""
        self._do(lambda: self._record("BOOKMARK", {"kind": "Pod", "metadata": {}}))

    def say(self, event: Json) -> None:
        """Send any event to all watchers."""
        self._do(lambda: self._append(event))

    def expire(self) -> None:
        """Forget all versions so far, and end the watches."""
        self._do(self._expire)

    def hang_up(self) -> None:
        """Break off every watch in the middle."""
        self._do(self._hang_up)

    def _record(self, kind: str, thing: Json) -> None:
        self._version += 1
        thing = thing | {"metadata": thing["metadata"] | {"resourceVersion": str(self._version)}}
        if kind == "DELETED":
            self._pods.pop(thing["metadata"]["uid"])
        elif kind != "BOOKMARK":
            self._pods[thing["metadata"]["uid"]] = thing
        self._append({"type": kind, "object": thing})

    def _append(self, event: Json) -> None:
        self._events.append((self._version, event))

    def _expire(self) -> None:
        self._version += 1
        self._oldest = self._version
        self._events.clear()
        self._hang_up()

    def _hang_up(self) -> None:
        self._generation += 1

    def _do(self, change: Callable[[], object]) -> None:
        async def run() -> None:
            async with self._changed:
                change()
                self._changed.notify_all()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    async def list(self, request: web.Request) -> web.Response:
        """Those of the node that is asked for."""
        items = [pod for pod in self._pods.values() if _wanted(request)(pod)]
        return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def watch(self, request: web.Request) -> web.StreamResponse:
        """What happens after a version, until the time is up or the test hangs up."""
        version, generation = int(request.query["resourceVersion"]), self._generation
        wanted = _wanted(request)
        response = web.StreamResponse()
        await response.prepare(request)
        if version < self._oldest:
            await _send(
                response, {"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}
            )
            return response
        sent, end = 0, self._loop.time() + self.second_s * int(request.query["timeoutSeconds"])
        while generation == self._generation:
            async with self._changed:
                events = self._events[sent:]
                if not events:
                    try:
                        await asyncio.wait_for(self._changed.wait(), end - self._loop.time())
                    except TimeoutError:
                        return response
                    continue
            for at, event in events:
                sent += 1
                if at > version and wanted(event["object"]):
                    await _send(response, event)
        if request.transport is not None:
            request.transport.abort()
        return response


def _wanted(request: web.Request) -> Callable[[Json], bool]:
    """By the node that a pod is bound to; what is no pod concerns everybody."""
    selector = request.query["fieldSelector"]
    if selector == "spec.nodeName!=":
        return lambda thing: thing.get("spec", {}).get("nodeName") != ""
    node = selector.removeprefix("spec.nodeName=")
    return lambda thing: thing.get("spec", {}).get("nodeName", node) == node


async def _send(response: web.StreamResponse, event: Json) -> None:
    await response.write(json.dumps(event).encode() + b"\n")


POD = "/api/v1/namespaces/default/pods/pod-of-uid-1"
NODE = "/api/v1/nodes/gpu-a"
PODS = "/api/v1/pods"
MPIJOB = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs/bert"
_VERBS = ["get", "list", "patch", "watch"]
GROUPS = {
    "/api/v1": [
        ("Pod", "pods", True),
        ("Pod", "pods/status", True),
        ("Node", "nodes", False),
        ("Namespace", "namespaces", False),
    ],
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

    ``pods`` are those that are listed by node and watched. ``refused`` maps a path to the status it gets.
    ``writers`` lists, for each patch that was taken, the token it came with and the path.
    """

    def __init__(self) -> None:
        self.pods = WatchedPods()
        self.refused: dict[str, int] = {}
        self.failures: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.objects: dict[str, dict[str, Any]] = {}
        self.leases: dict[str, dict[str, Any]] = {}
        """Whole Leases, by path."""
        self.events: dict[str, dict[str, Any]] = {}
        """Whole Events, by path."""
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

    async def start(self, tls: ssl.SSLContext | None = None, *, cancels: bool = False) -> None:
        """Listen; again on the same port after ``stop``. ``cancels``: drop what nobody waits for any more."""
        self._tls = tls or self._tls
        self.pods.begin()
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=cancels)
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

    def asked(self, path: str) -> int:
        """How often a path was asked for; a watch's ends in ``?watch``."""
        return self.requests.count(path)

    @property
    def requests(self) -> list[str]:
        """The paths that were asked for."""
        return [path for _, path in self.seen]

    def fail(self, what: str, *codes: int, headers: dict[str, str] | None = None) -> None:
        """Answer the next requests of ``list``, ``watch`` or a path with these codes."""
        self.failures.setdefault(what, []).extend((code, headers or {}) for code in codes)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        of_pods = "fieldSelector" in request.query
        watching = "watch" in request.query
        self.seen.append((request.method, request.path + "?watch" * watching))
        what = ("watch" if watching else "list") if of_pods else request.path
        if planned := self.failures.get(what):
            code, headers = planned.pop(0)
            return _status(code, f"planned {code}", headers)
        if request.path in self.refused:
            return _status(self.refused[request.path], f"{request.path} is not for you")
        if of_pods:
            return await (self.pods.watch(request) if watching else self.pods.list(request))
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
        if request.path in ("/api", "/apis"):
            return self._aggregated(core=request.path == "/api")
        if request.path.startswith("/apis/") and request.path.count("/") == 2:
            return self._versions(request.path.removeprefix("/apis/"))
        if request.path.startswith("/apis/coordination.k8s.io/v1/"):
            return _kept(self.leases, body, request)
        if request.path.startswith("/apis/events.k8s.io/v1/"):
            return _kept(self.events, body, request)
        if request.path in self.objects:
            return self._object(body, request)
        return self._list(request) or self._missing(request.path)

    def _missing(self, path: str) -> web.Response:
        """Of an object that is not there its name is told; of a version that is not served nothing is."""
        if not any(path.startswith(f"{served}/") for served in self.groups):
            return web.Response(status=404, text="404 page not found\n")
        *_, plural, name = path.split("/")
        details = {"name": name, "kind": plural}
        answer = {"kind": "Status", "message": f'{plural} "{name}" not found', "details": details}
        return web.json_response(answer, status=404)

    def _aggregated(self, *, core: bool) -> web.Response:
        """All kinds in one answer."""
        items: dict[str, Any] = {}
        for path, kinds in self.groups.items():
            group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
            if core == (not group):
                resources = [
                    {"resource": n, "responseKind": {"kind": k}, "verbs": _VERBS,
                     "scope": "Namespaced" if ns else "Cluster"}
                    for k, n, ns in kinds if "/" not in n
                ]  # fmt: skip
                item = items.setdefault(group, {"metadata": {"name": group}, "versions": []})
                item["versions"].append({"version": version, "resources": resources})
        return web.json_response({"kind": "APIGroupDiscoveryList", "items": list(items.values())})

    def _versions(self, group: str) -> web.Response:
        found = [path.removeprefix("/apis/") for path in self.groups if path.startswith(f"/apis/{group}/")]
        if not found:
            return _status(404, "not found")
        return web.json_response({"name": group, "versions": [{"groupVersion": one} for one in found]})

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


def _kept(whole: dict[str, dict[str, Any]], body: bytes, request: web.Request) -> web.Response:
    """An object that is made once, and merged into afterwards. None is listed."""
    if request.method == "GET":
        return _status(404, f"{request.path} not found")
    given = json.loads(body)
    if request.method == "POST":
        path = f"{request.path}/{given['metadata']['name']}"
        if path in whole:
            return _status(409, f"{path} already exists")
        whole[path] = given
        return web.json_response(given, status=201)
    if request.path not in whole:
        return _status(404, f"{request.path} not found")
    kept = whole[request.path]
    for part in given:
        kept[part] = {**kept.get(part, {}), **given[part]}
    return web.json_response(kept)


def _status(status: int, message: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"kind": "Status", "message": message}, status=status, headers=headers)


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
    return ours(api.objects[path]["annotations"], "dutycycle.io")


@contextmanager
def fake_api_server() -> Iterator[FakeApi]:
    """A fake API server in a thread of its own, for tests without an event loop."""
    server, ready = FakeApi(), threading.Event()
    ends: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def main() -> None:
        ends.append((asyncio.get_running_loop(), asyncio.Event()))
        await server.start(cancels=True)
        ready.set()
        await ends[0][1].wait()
        await server.stop()

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="fake API server")
    thread.start()
    if not ready.wait(120):
        raise TimeoutError("the fake API server did not start")
    try:
        yield server
    finally:
        loop, end = ends[0]
        loop.call_soon_threadsafe(end.set)
        thread.join(120)


def tls_of(certificates: Certificates) -> ssl.SSLContext:
    """What the fake is started with to answer by HTTPS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.server)
    return context
