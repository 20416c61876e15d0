"""What a page for browsers may have to show: few and many GPUs, nothing, what is away, names that attack."""

import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import orjson
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestServer

from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.health import GpuEvent, HitPod
from dutycycle.contract.records.hours import HOUR_MS, GpuHour, UsageHour
from dutycycle.contract.settings.load import load
from dutycycle.live.model.state import LiveState
from dutycycle.live.source import Source
from dutycycle.web.server import WebPage
from sinks.records.rows import rows_of
from tests.support.data.two_teams import two_teams
from tests.support.fleet import START_MS, fleet
from tests.support.live import POD, POD_SUBJECT, fed, feed, nvml
from tests.support.sinks.recording import derived, open_store, write_all, write_records

HOSTILE = "<script>alert(1)</script>\"'&{{7*7}}\u05e9\u05dc\u05d5\u05dd" + "w" * 160
"""A tag, quotes, a template, letters that are read from the right, and no place to break."""
_PHASES_S = 1680
"""After so long every GPU of a fleet is at the same place of its cycle."""
_DAYS = 6
_SILENT_MS = 30_000
_PREFIX = "/team/ui"


@dataclass(frozen=True, slots=True)
class WebWorld:
    """``gpu`` and ``node``: keys, ``job``: a uid of the records; None where there is none. ``degraded``: what
    does not work."""

    state: LiveState
    records: str
    gpu: str | None
    node: str | None
    job: str | None = None
    degraded: Callable[[], Sequence[str]] = list

    @property
    def paths(self) -> list[str]:
        """Every page that it has."""
        of_one = [f"subject?key={key}" for key in (self.gpu, self.node) if key is not None]
        of_one += [f"job?uid={self.job}"] if self.job else []
        return [*of_one, "fleet", "gpus", "jobs", "pods", "processes", "history", "usage", "idle", "about"]


def records_of_teams(folder: Path) -> str:
    """Write jobs of two teams, and the past week of the first GPU of a fleet, which was ill once."""
    file = folder / "records.db"
    file.write_bytes(_records_of_teams(time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS))
    return f"sqlite:///{file}"


@cache
def _records_of_teams(hour_ms: int) -> bytes:
    """The file, up to this hour. It takes seconds, so it is made once."""
    with TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/records.db"
        write_all(derived(two_teams(hour_ms - 3 * HOUR_MS)), url, load({}, {"price_gpu_hour": "2"}))
        store = open_store(url)
        for back in range(_DAYS * 24, 4, -1):
            share = 0.55 + 0.4 * math.sin(back / 4)
            is_held = back % 24 < 17
            gpu = GpuHour(
                pod_uid=("pod-a", "pod-b")[back // 24 % 2] if is_held else None, gpu="GPU-gpu-a-0",
                model="NVIDIA H200", gpu_s=3600, known_s=3600, busy_s=3600 * share if is_held else 0,
                sm_s=1800 * share if is_held else 0, sm_known_s=3600,
                energy_j=3600 * (90 + 500 * share * is_held),
            )  # fmt: skip
            at_ms = hour_ms - back * HOUR_MS
            if back % 50 > 2:  # a gap
                hour = UsageHour(node="gpu-a", source="nvml", hour_ms=at_ms, ts_ms=at_ms + 1, gpus=(gpu,))
                assert store.put(rows_of(hour)) == []
        store.close()
        write_records(url, GpuEvent(
            node="gpu-a", collector="c", seq=1, ts_ms=hour_ms - 30 * HOUR_MS, gpu="GPU-gpu-a-0", index=0,
            kind="xid", code=63, severity="watch", name="Xid 63", action="look after it",
            pods=(HitPod(uid="pod-a", namespace="ml", name="name-of-pod-a"),),
        ))  # fmt: skip
        return Path(folder, "records.db").read_bytes()


def usual(records: str, gpus: int = 8, ticks: int = 120) -> WebWorld:
    """So many GPUs, which work now; one of them was ill, and four are held for nothing."""
    now_s = time.time_ns() // 10**9
    first = (now_s - START_MS // 1000 - ticks) // _PHASES_S * _PHASES_S
    state = fleet(gpus, ticks, first=first)
    watched = {"level": "watch", "reason": "row remapping", "action": "look after it"}
    ill_ms = state.now_ms - 30 * HOUR_MS
    finding = watched | {"kind": "xid", "code": 63, "since_ms": ill_ms, "last_ms": ill_ms}
    healthy = {"level": "healthy", "since_ms": ill_ms, "seen_ms": state.now_ms - 7000}
    verdicts: list[dict[str, Any]] = [
        healthy | {"gpu": f"GPU-gpu-a-{index}", "index": index, "counters": {"nvlinks_active": 18}}
        for index in range(8)
    ]
    verdicts[0] |= watched | {"findings": [finding]}
    feed(state, "gpu-health", "gpu-a", {"node": "gpu-a", "ts_ms": state.now_ms, "gpus": verdicts})
    node = state.node_rows()[-1].name
    idle = {
        "subject": {"kind": "pod", "node": node, "pod_uid": f"{node}-1"}, "ts_ms": state.now_ms,
        "since_ms": state.now_ms - 3 * HOUR_MS, "kind": "idle", "bottleneck": "idle", "confidence": 0.95,
        "evidence": {"gpus": 4, "gpu_util_pct": 0}, "advice": "give it back, or stop it",
    }  # fmt: skip
    feed(state, "insights", f"pod/{node}-1", idle)
    assert state.unreadable == 0
    return WebWorld(state, records, "gpu/gpu-a/GPU-gpu-a-0", "node/gpu-a", "job-pod-b")


def stale(records: str) -> WebWorld:
    """Nothing came in for half a minute."""
    state = fleet(8)
    state.at(state.now_ms + _SILENT_MS)
    return WebWorld(state, records, "gpu/gpu-a/GPU-gpu-a-0", "node/gpu-a", "job-pod-b")


def hostile(folder: Path) -> WebWorld:
    """Names of a pod, its namespace, its job, a process and a model are attacks, now and in the records."""
    url = f"sqlite:///{folder}/hostile.db"
    job = {"api_version": HOSTILE, "kind": HOSTILE, "name": HOSTILE, "uid": "j"}
    pod = POD | {"name": HOSTILE, "namespace": HOSTILE, "job": job, "labels": {HOSTILE[:60]: HOSTILE}}
    process = {"pid": 7, "name": HOSTILE, "pod_uid": "p", "gpu_util_pct": 41, "mem_used_bytes": 5}
    start_ms = time.time_ns() // 1_000_000 // HOUR_MS * HOUR_MS - 2 * HOUR_MS
    head = {"v": 1, "collector": "c", "interval_ms": 1000}
    samples = [
        head | {"seq": tick} | nvml(0, ts_ms=start_ms + 1000 * tick, model=HOSTILE, processes=[process])
        for tick in range(120)
    ]
    idle = {"subject": POD_SUBJECT, "kind": "idle", "bottleneck": "idle", "advice": HOSTILE}
    state = fed(
        ("pods", "p", pod),
        *(("nvml-samples", "a", sample) for sample in samples),
        ("insights", "pod/p", idle),
    )
    write_all(derived([
        ConsumerRecord("pods", 0, 0, "p", orjson.dumps(pod), start_ms),
        *(ConsumerRecord("nvml-samples", 0, 0, "a", orjson.dumps(sample), start_ms) for sample in samples),
    ]), url)  # fmt: skip
    return WebWorld(state, url, "gpu/a/GPU-1", None, "j")


@asynccontextmanager
async def shown(world: WebWorld, **settings: str) -> AsyncIterator[str]:
    """Its page; the address."""
    given = {"records": world.records, "web": "127.0.0.1:0", "price_gpu_hour": "2", **settings}
    source = Source(world.state, "dutycycle on gpu-a", "broker: kafka://b:1", world.degraded)
    async with WebPage(source, load({}, given)).serving() as url:
        yield url


@asynccontextmanager
async def behind_proxy(url: str) -> AsyncIterator[str]:
    """A proxy that has the page of ``url`` below a path of its own; the address there."""

    async def pass_on(request: web.Request) -> web.StreamResponse:
        path = request.path_qs.removeprefix(_PREFIX).lstrip("/")
        async with client.get(url + path, allow_redirects=False) as answer:
            kept = {name: answer.headers[name] for name in _KEPT if name in answer.headers}
            response = web.StreamResponse(status=answer.status, headers=kept)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        return response

    app = web.Application()
    app.router.add_get(f"{_PREFIX}/{{rest:.*}}", pass_on)
    server = TestServer(app)
    await server.start_server(shutdown_timeout=1)
    async with ClientSession() as client, server:
        yield str(server.make_url(f"{_PREFIX}/"))


_KEPT = ("Content-Type", "Content-Security-Policy", "Location", "Content-Disposition")
