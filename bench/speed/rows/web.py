"""The page for browsers, of a large fleet and many jobs: how soon it is there, what an open one takes, and
what memory."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from aiohttp import ClientSession, ClientTimeout
from sqlalchemy import create_engine, text

from bench.speed.bench import Bench
from bench.speed.cluster import Sample, Topics
from bench.speed.worker import Worker, own_command, working
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.topics import ensure_topics
from tests.support.fleet import START_MS, fleet_records, fleet_tick
from tests.support.servers.ports import free_port
from tests.support.servers.postgres import Postgres
from tests.support.sinks.recording import insert_jobs

_GPUS = 10_000
_EVERY_S = 5
"""Between two ticks of a node: the page keeps the last 50 of so many GPUs, which come within five minutes."""
_HOURS = 28 * 24
_TEAMS = tuple(f"team-{at}" for at in range(20))
_COLORS = ("sm", "memory", "heat", "power", "age")
_PAGES = {
    "jobs": "history?since=30d",
    "usage": "usage?by=team&since=30d",
    "gpu": "subject?key=gpu/gpu-a/GPU-gpu-a-0",
}
_WAIT_S = 300.0


def web(bench: Bench) -> None:
    """``dutycycle serve --roles web`` on real Kafka and PostgreSQL, on a core of its own."""
    jobs, seconds, watched_s = bench.size.web
    bench.note(
        "web.how",
        f"{_GPUS:,} GPUs, a tick every {_EVERY_S} s, {jobs:,} ended jobs of {_HOURS // 24} days; memory "
        f"after {seconds} s; an open page is what {watched_s} s with it take more than {watched_s} s without",
    )
    server, topics, port = Postgres(), Topics(bench.broker), free_port()
    try:
        url = server.new_database()
        bench.say(f"web: {jobs:,} jobs into PostgreSQL")
        first_ms = (time.time_ns() // 1_000_000 // HOUR_MS - _HOURS) * HOUR_MS
        insert_jobs(
            url, ((f"u{at}", f"train-{at}", first_ms + at % _HOURS * HOUR_MS) for at in range(jobs)), _TEAMS
        )
        engine = create_engine(url)
        with engine.begin() as connection:  # as autovacuum does where rows come in over weeks
            connection.execute(text("ANALYZE"))
        engine.dispose()
        asyncio.run(ensure_topics(topics.settings, list(TOPICS)))
        began = round(time.time()) - START_MS // 1000
        topics.fill(fleet_records(_GPUS, 1, began))
        stop = threading.Event()
        feeding = threading.Thread(target=topics.pace, args=(_ticks(began, stop),))
        feeding.start()
        page = own_command("serve", "--roles", "web", records=url, serve_listen=f"127.0.0.1:{port}")
        try:
            with working(page, topics, bench.folder, bench.last) as worker:
                asyncio.run(_measure_page(bench, worker, f"http://127.0.0.1:{port}/", seconds, watched_s))
        finally:
            stop.set()
            feeding.join()
    finally:
        server.discard()
    topics.delete()


def _ticks(began: int, stop: threading.Event) -> Iterator[list[Sample]]:
    """Give what each second brings, from the next tick on."""
    second = 0
    while not stop.is_set():
        second += 1
        yield list(fleet_tick(_GPUS, began + second)) if second % _EVERY_S == 0 else []
        stop.wait(0.0 if second % _EVERY_S == 0 else 1.0)


async def _measure_page(bench: Bench, worker: Worker, url: str, seconds: int, watched_s: int) -> None:
    """Ask as a browser does, and add the figures."""
    async with ClientSession(url, timeout=ClientTimeout(_WAIT_S)) as client:
        while await _status(client) != 200:
            worker.wait(lambda: True)
            await asyncio.sleep(0.5)
        await asyncio.sleep(3 * _EVERY_S)  # each node has come in
        began_s, before_s = time.monotonic(), worker.cpu_s()
        page = await _page(client, "fleet")
        bench.add("web.first_s", time.monotonic() - began_s, "s to the first page")
        bench.add("web.first_cpu_s", worker.cpu_s() - before_s, "s of CPU of the process until then")
        shown = len(re.findall(r'<li><a class="', page))
        if shown != _GPUS:
            raise RuntimeError(f"the page shows {shown} GPUs of {_GPUS}")
        for color in _COLORS[: bench.size.repeats]:  # each is another question, so it is made
            await _time(bench, worker, client, "fleet", f"fleet?color={color}")
        for name, path in _PAGES.items():
            await _time(bench, worker, client, name, path)
        alone_share = await _watch(worker, client, watched_s, [])
        open_share = await _watch(worker, client, watched_s, ["fleet"])
        bench.add("web.alone_pct", 100 * alone_share, "% of a core without a page")
        bench.add(
            "web.open_pct",
            100 * (open_share - alone_share),
            "% of a core more with an open page of the fleet",
        )
        while time.monotonic() - worker.began_s < seconds:
            await _watch(worker, client, 10, ["fleet"])
        bench.add("web.memory_mb", worker.memory_mb(), "MB resident")
        bench.add("web.memory_most_mb", worker.memory_mb("VmHWM"), "MB at most")


async def _status(client: ClientSession) -> int:
    with suppress(OSError):
        async with client.get("about") as answer:
            return answer.status
    return 0


async def _page(client: ClientSession, path: str) -> str:
    async with client.get(path) as answer:
        answer.raise_for_status()
        return await answer.text()


async def _time(bench: Bench, worker: Worker, client: ClientSession, name: str, path: str) -> None:
    began_s, before_s = time.monotonic(), worker.cpu_s()
    await _page(client, path)
    bench.add(f"web.{name}_s", time.monotonic() - began_s, f"s for {path}")
    bench.add(f"web.{name}_cpu_s", worker.cpu_s() - before_s, "s of CPU")


async def _watch(worker: Worker, client: ClientSession, seconds: float, paths: list[str]) -> float:
    """Keep these pages open for so long, as the script of the page does; the share of a core that the
    process took."""

    async def keep_open(path: str) -> None:
        async with client.get("changes", params={"of": path}, timeout=ClientTimeout(None)) as changes:
            async for line in changes.content:
                if line.startswith(b"data:"):
                    await _page(client, path)

    began_s, before_s = time.monotonic(), worker.cpu_s()
    pages = [asyncio.create_task(keep_open(path)) for path in paths]
    await asyncio.sleep(seconds)
    share = (worker.cpu_s() - before_s) / (time.monotonic() - began_s)
    for page in pages:
        page.cancel()
    await asyncio.gather(*pages, return_exceptions=True)
    return share
