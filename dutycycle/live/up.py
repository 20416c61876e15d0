"""Runs the whole pipeline on this machine: broker, collector, streams, sinks, and a live view."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from urllib.parse import quote

from dutycycle.contract.analyses import written_topics
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.folders import state_folder
from dutycycle.contract.settings.groups import PREFIX, Settings
from dutycycle.contract.topics import TOPICS, full_name
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.live.children import Child
from dutycycle.live.follow import ClusterFollower
from dutycycle.live.lines import say
from dutycycle.live.model.processes import local_processes
from dutycycle.live.model.state import LiveState
from dutycycle.live.picture import written
from dutycycle.live.show import show
from dutycycle.live.source import Source, WithPage
from dutycycle.live.top import settled
from dutycycle.process import print_remark, stop_on_signals, stopped_within
from sinks.records.location import default_records_path, default_records_url
from streams.names import changelogs, check_settings

_EMBEDDED_PARTITIONS = 2
_ONCE_S = 60.0
"""How long one picture may take: the processes begin, and measure twice."""
_COMMANDS = ("sink", "stream", "collect")
_DEMO_NODE = "demo"


async def up(
    settings: Settings,
    given: Mapping[str, str],
    with_page: WithPage,
    duration_s: float | None,
    once: str | None = None,
) -> int:
    """Run until a signal, or for ``duration_s`` from when the streams are ready, or until there is one
    picture, which is printed as ``once``.

    0 when all ended in good order, and nothing is away.
    """
    check_settings(settings)
    if settings.demo == "on":
        settings, given = _of_demo(settings, given)
    stop = stop_on_signals()
    logs = state_folder() / "log"
    for folder in (logs.parent, logs):  # a mode is for the last folder alone
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    async with AsyncExitStack() as stack:
        ours, url = await stack.enter_async_context(_broker(settings))
        settings = replace(settings, broker=url, partitions=ours or settings.partitions)
        environ = child_environ(os.environ, settings, given)
        if ours is not None:
            # The broker is in memory and ends with us, so what waits for it is of no use to a later one.
            spool = tempfile.TemporaryDirectory(prefix="spool-", dir=logs.parent)
            environ.setdefault(PREFIX + "SPOOL", stack.enter_context(spool))
        children = [Child(name, environ, logs / f"{name}.log") for name in _COMMANDS]
        follower = ClusterFollower(settings, LiveState(local=local_processes(settings)))
        kind = "embedded broker, in memory, gone when this ends" if ours is not None else "broker"
        place = f"{kind}: {settings.broker}"
        title = f"dutycycle on {settings.node}" + (" (simulated)" if settings.demo == "on" else "")

        def degraded() -> list[str]:
            lines = [line for child in children for line in child.messages]
            return lines + ([f"more in {children[0].log.parent}"] if lines else [])

        source = Source(follower.state, title, place, degraded, stop)
        if once is None:
            source = await stack.enter_async_context(with_page(source, settings))
        asked = await _run(children, follower, source, duration_s, once)
    # Where the records are, and what failed or is away
    if settings.demo == "on":
        print_remark(
            f"its records are in {settings.records}: see `dutycycle peaks --records {settings.records}`"
        )
    elif settings.records is None and default_records_path().exists():
        print_remark(f"peak records are in {default_records_path()}: see `dutycycle peaks`")
    reasons = dict.fromkeys(child.reason for child in children if child.status not in (0, None))
    if not reasons and not (asked or follower.state.ticks > 0):
        reasons[_NOTHING_CAME] = None
    for reason in reasons:
        print_remark(f"dutycycle: {reason} (more in {children[0].log.parent})")
    return 1 if reasons else 0


def _of_demo(settings: Settings, given: Mapping[str, str]) -> tuple[Settings, dict[str, str]]:
    """Keep what is simulated among itself: it reaches no broker, cluster or records of anybody's.

    The records of a demo are in a file of their own, which the next demo begins anew.
    """
    for name, value in (("broker", settings.broker), ("prometheus", settings.prometheus)):
        if value is not None:
            raise SettingError(f"--demo does not go with --{name}: it has simulated GPUs and its own broker")
    records = settings.records
    if records is None:
        path = default_records_path().with_name("demo.db")
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        records = f"sqlite:///{quote(str(path), safe='/ +')}"
    node = given.get("node", _DEMO_NODE)
    settings = replace(settings, node=node, records=records, kubernetes="off", annotations="off")
    return settings, {**given, "demo": "on", "node": node, "kubernetes": "off", "annotations": "off"}


@asynccontextmanager
async def _broker(settings: Settings) -> AsyncIterator[tuple[int | None, str]]:
    """Give (partitions, URL) of the embedded broker, or (None, URL) of the one that the settings name."""
    if settings.broker is not None:
        yield None, settings.broker
        return
    chosen = replace(settings, partitions=_EMBEDDED_PARTITIONS)
    names = [full_name(settings.topic_prefix, name) for name in written_topics(TOPICS, settings.analyses)]
    topics = dict.fromkeys([*names, *changelogs(chosen)], _EMBEDDED_PARTITIONS)
    broker = await asyncio.to_thread(EmbeddedBroker(topics).start)
    try:
        yield _EMBEDDED_PARTITIONS, broker.url
    finally:
        await asyncio.to_thread(broker.stop)


def child_environ(environ: Mapping[str, str], settings: Settings, given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the children: ours, our flags as variables, and what ``up`` decides by
    itself."""
    decided = {
        "broker": settings.broker or "",
        "partitions": str(settings.partitions),
        "records": settings.records or default_records_url(),
        "node": settings.node,
        "snapshot_interval": "1s",  # a person is watching
    }
    if "containers" not in given and PREFIX + "CONTAINERS" not in environ:
        decided["containers"] = "all"  # a laptop without Kubernetes has something to see
    return {**environ, **{PREFIX + name.upper(): value for name, value in {**given, **decided}.items()}}


async def _run(
    children: list[Child],
    follower: ClusterFollower,
    source: Source,
    duration_s: float | None,
    once: str | None,
) -> bool:
    """Tell whether a signal or a key ended it, and not the time."""
    reading_ended, ended = asyncio.Event(), asyncio.Event()
    # First: the children take all cores for a while.
    drawing = asyncio.create_task(show(source, ended) if once is None else ended.wait())
    reading = asyncio.create_task(follower.run(reading_ended))
    tasks = [asyncio.create_task(child.run()) for child in children]
    sink, stream, collect = children
    try:
        if once is not None and await settled(follower, source.stop, duration_s or _ONCE_S):
            say(written(source.state, source.degraded(), once))
            source.stop.set()
        if once is None and duration_s is not None:
            # Wait while the streams import and compile their loops: a time that counts this has no peaks.
            # The first start of an installation compiles for a minute; a duration of 20 s would end before.
            beginnings = [asyncio.create_task(event.wait()) for event in (stream.begun, source.stop)]
            await asyncio.wait(beginnings, return_when=asyncio.FIRST_COMPLETED)
            for beginning in beginnings:
                beginning.cancel()
        asked = once is None and await stopped_within(source.stop, duration_s)
        await collect.stop()
        if not asked and once is None:
            await follower.wait_until_idle()
        await stream.stop()
        await sink.stop()
    finally:
        reading_ended.set()
        await asyncio.gather(reading, *tasks)
        ended.set()
        await drawing
    return asked


_NOTHING_CAME = (
    "no sample came in this time: give a longer --duration; if it is longer than half a minute already, "
    "the collector's log says why"
)
