"""A fake Kubernetes API server: pods, owners, and failures in the ways of a real one."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

PODS = "/api/v1/pods"
Json = dict[str, Any]


def status(code: int, message: str) -> Json:
    """A ``Status`` object, as the API server words its errors."""
    return {"kind": "Status", "status": "Failure", "code": code, "message": message}


class FakeApiServer:
    """State that a test changes from its thread; ``requests`` are the paths asked for, with ``?watch``."""

    def __init__(self) -> None:
        self.address = ""
        self.requests: list[str] = []
        self.failures: dict[str, list[tuple[int, dict[str, str]]]] = {}
        self.served: dict[str, Json | int] = {}
        self._version = 100
        self._oldest = 0
        self._pods: dict[str, Json] = {}
        self._events: list[tuple[int, Json]] = []
        self._generation = 0
        self._changed: asyncio.Condition
        self._loop: asyncio.AbstractEventLoop

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

    def fail(self, what: str, *codes: int, headers: dict[str, str] | None = None) -> None:
        """Answer the next requests of ``list``, ``watch`` or a path with these codes."""
        self._do(lambda: self.failures.setdefault(what, []).extend((code, headers or {}) for code in codes))

    def call_soon(self, what: Callable[[], object]) -> None:
        """Run something in the server's thread."""
        self._loop.call_soon_threadsafe(what)

    def count(self, request: str) -> int:
        """How often a path was asked for."""
        return self.requests.count(request)

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

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Any request."""
        watching = "watch" in request.query
        self.requests.append(request.path + ("?watch" if watching else ""))
        what = request.path if request.path != PODS else "watch" if watching else "list"
        if planned := self.failures.get(what):
            code, headers = planned.pop(0)
            return web.json_response(status(code, f"planned {code}"), status=code, headers=headers)
        if request.path != PODS:
            return self._serve(request.path)
        return await self._watch(request) if watching else self._list(request)

    def _serve(self, path: str) -> web.Response:
        found = self.served.get(path, 404)
        if isinstance(found, int):
            return web.json_response(status(found, f"{path} is not for you"), status=found)
        return web.json_response(found)

    def _list(self, request: web.Request) -> web.Response:
        items = [pod for pod in self._pods.values() if _wanted(request)(pod)]
        return web.json_response({"metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        version, generation = int(request.query["resourceVersion"]), self._generation
        wanted = _wanted(request)
        response = web.StreamResponse()
        await response.prepare(request)
        if version < self._oldest:
            await _send(response, {"type": "ERROR", "object": status(410, "too old resource version")})
            return response
        sent, end = 0, self._loop.time() + int(request.query["timeoutSeconds"])
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

    async def run(self, ready: threading.Event, stop: asyncio.Event) -> None:
        """Serve on a free loopback port until told to stop."""
        self._changed = asyncio.Condition()
        self._loop = asyncio.get_running_loop()
        app = web.Application()
        app.router.add_get("/{path:.*}", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()
        await stop.wait()
        await runner.cleanup()


def _wanted(request: web.Request) -> Callable[[Json], bool]:
    """By the node that a pod is bound to; what is no pod concerns everybody."""
    selector = request.query["fieldSelector"]
    if selector == "spec.nodeName!=":
        return lambda thing: thing.get("spec", {}).get("nodeName") != ""
    node = selector.removeprefix("spec.nodeName=")
    return lambda thing: thing.get("spec", {}).get("nodeName", node) == node


async def _send(response: web.StreamResponse, event: Json) -> None:
    await response.write(json.dumps(event).encode() + b"\n")


@contextmanager
def fake_api_server() -> Iterator[FakeApiServer]:
    """A fake API server in a thread of its own."""
    server, ready = FakeApiServer(), threading.Event()
    stops: list[asyncio.Event] = []

    async def main() -> None:
        stops.append(asyncio.Event())
        await server.run(ready, stops[0])

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="fake API server")
    thread.start()
    if not ready.wait(20):
        raise TimeoutError("the fake API server did not start")
    try:
        yield server
    finally:
        server.call_soon(stops[0].set)
        thread.join(20)


def kubeconfig(folder: Path, address: str) -> Path:
    """A kubeconfig of one cluster and one token."""
    file = folder / "kubeconfig"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": address}}],
        "users": [{"name": "test", "user": {"token": "t0ken"}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
    }
    file.write_text(json.dumps(content), encoding="utf-8")
    return file
