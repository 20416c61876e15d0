"""The sink on the real Kafka and the real API server, with a proxy between that makes trouble."""

import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest_asyncio
from aiohttp import web

from tests.support.fakes.api_server import FakeApi, Trouble
from tests.support.kafka import PUBLIC, Sent, make_topics, settings_of
from tests.support.processes.sinking import Worker, kept, publish, sinking, worker
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kube.client import Access, Object
from tests.support.servers.kube.server import Kube
from tests.support.sinks import made
from tests.support.waiting import until

PODS = 24
PASSED_ON = ("Authorization", "Content-Type", "Accept")
SPEC = {"containers": [{"name": "main", "image": "example.org/train:1"}], "nodeName": "gpu-a"}
NOW = "Sun, 06 Nov 1994 08:49:37 GMT"
SOON = "Sun, 06 Nov 1994 08:49:38 GMT"
TROUBLES = [
    Trouble(500, method="GET"), Trouble(429, {"Retry-After": "1"}, method="GET"),
    Trouble(reset=True, method="GET"), Trouble(200, body="{", method="GET"),
    Trouble(429, {"Retry-After": "1"}), Trouble(500), Trouble(409), Trouble(410),
    Trouble(503, {"Retry-After": SOON, "Date": NOW}), Trouble(502, body="<html>bad gateway</html>"),
    Trouble(504), Trouble(401), Trouble(reset=True), Trouble(cut=True, after=True),
    Trouble(200, body="\x00\xff garbage"), Trouble(200, body='{"metadata":"none"}'), Trouble(torn=True),
    Trouble(drip_s=0.02), Trouble(408),
]  # fmt: skip
"""Each is followed by a request that is served: trouble after trouble is waited out ever longer."""


class ApiProxy(FakeApi):
    """Passes on to the real server what gets no trouble, and its answers back."""

    def __init__(self, real: Access) -> None:
        super().__init__()
        self._real = real
        self._session: aiohttp.ClientSession | None = None

    async def stop(self) -> None:
        """Go away; the real server stays."""
        await super().stop()
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _served(self, body: bytes, request: web.Request) -> web.Response:
        if self._session is None:
            tls = ssl.create_default_context(cafile=str(self._real.authority))
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=tls))
        headers = {name: request.headers[name] for name in PASSED_ON if name in request.headers}
        url = f"{self._real.url}{request.path_qs}"
        # To an empty body aiohttp would add a Content-Type, which the server refuses (415).
        async with self._session.request(request.method, url, data=body or None, headers=headers) as answer:
            if request.method == "PATCH" and answer.status == 200:
                self.writers.append(("", request.path))
            kind = {"Content-Type": answer.headers["Content-Type"]}
            return web.Response(status=answer.status, body=await answer.read(), headers=kind)


@pytest_asyncio.fixture
async def api(kube: Kube) -> AsyncIterator[ApiProxy]:
    proxy = ApiProxy(kube.admin.access)
    await proxy.start()
    yield proxy
    await proxy.stop()


def peaks(things: list[Object], cpu: float, *, final: bool = False) -> list[Sent]:
    """Peaks of the pods, each with a figure that names it."""
    found: list[Sent] = []
    for i, thing in enumerate(things):
        meta = thing["metadata"]
        record = made.pod_peaks(
            meta["uid"], {"name": meta["name"], "namespace": meta["namespace"]},
            metrics={"cpu_util_pct": made.peak(cpu + i)}, gpus={}, processes=None, final=final,
            last_ms=20_000 if final else 10_000,
        )  # fmt: skip
        found.append(("pod-peaks", meta["uid"], record))
    return found


def carry(kube: Kube, things: list[Object], cpu: float, updated: str) -> bool:
    """Whether every pod carries exactly that, and what it carried before."""
    return all(
        kube.admin.get(thing)["metadata"]["annotations"]
        == {
            "example.org/mine": "kept",
            "dutycycle.io/max_cpu_util": json.dumps(int(cpu + i)),
            "dutycycle.io/updated": updated,
        }
        for i, thing in enumerate(things)
    )


async def test_trouble_an_absence_and_a_kill_end_in_the_right_annotations(
    kafka: RunningBroker, topic_prefix: str, kube: Kube, namespace: str, api: ApiProxy, tmp_path: Path
) -> None:
    meta = {"namespace": namespace, "annotations": {"example.org/mine": "kept"}}
    things = [
        kube.admin.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": meta | {"name": f"pod-{i}"}, "spec": SPEC}
        )
        for i in range(PODS)
    ]
    one: Worker = worker(kafka, topic_prefix, api, tmp_path, kube.admin.access.token)
    await make_topics(settings_of(one.env), PUBLIC)
    async with sinking(one) as process:
        api.trouble.extend([one for bad in TROUBLES for one in (bad, Trouble(method=bad.method))])
        await publish(one, peaks(things, 100))
        await until(lambda: carry(kube, things, 100, "1970-01-01T00:00:10Z"))
        assert not api.trouble, "some of it was never played"
        kube.stop()
        await publish(one, peaks(things, 1000, final=True))
        # While the server is away, the records next to it arrive as ever.
        await until(lambda: all(row.final for row in kept(one.env)))
        await until(lambda: "sink_away" in one.said)
        kube.start()
        await until(lambda: len(api.writers) >= PODS + 3)
        process.kill()
        await process.wait()
    kube.admin.delete(things[-1])
    written = len(api.writers)
    async with sinking(one):
        await until(lambda: carry(kube, things[:-1], 1000, "1970-01-01T00:00:20Z"))
    assert len(api.writers) - written <= PODS
    assert written <= 2 * PODS + len(TROUBLES)
    assert not kube.admin.exists(things[-1])
    assert "Traceback" not in one.said
    assert "dead_letter" not in one.said
