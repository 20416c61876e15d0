"""Pods that a fake API server lists and watches, with the ways in which a real watch ends."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from aiohttp import web

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
