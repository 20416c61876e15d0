"""Runs the whole pipeline on this machine: broker, collector, streams, sinks, and a live view."""

import asyncio
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

from bus.kafka.embedded import EmbeddedBroker
from contract.settings.groups import PREFIX, Settings
from contract.topics import TOPICS, full_name
from dutycycle.live.children import Child
from dutycycle.live.follow import LiveView
from dutycycle.process import stop_on_signals, stopped_within
from sinks.records.location import default_records_path, default_records_url
from streams.names import changelogs, check_settings

_EMBEDDED_PARTITIONS = 2
_COMMANDS = ("sink", "stream", "collect")


async def up(settings: Settings, given: Mapping[str, str], duration_s: float | None) -> int:
    """Run until a signal, or for ``duration_s``; 0 when all ended in good order, and nothing is away."""
    check_settings(settings)
    stop = stop_on_signals()
    logs = default_records_path().parent / "log"
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
        view = LiveView(settings, children, _header(settings, embedded=ours is not None), logs)
        asked = await _run(children, view, stop, duration_s)
    return _exit_status(settings, children, measured=asked or view.state.ticks > 0)


@asynccontextmanager
async def _broker(settings: Settings) -> AsyncIterator[tuple[int | None, str]]:
    """(partitions, URL) of the embedded broker, or (None, URL) of the one that the settings name."""
    if settings.broker is not None:
        yield None, settings.broker
        return
    chosen = replace(settings, partitions=_EMBEDDED_PARTITIONS)
    names = [full_name(settings.topic_prefix, name) for name in TOPICS]
    topics = dict.fromkeys([*names, *changelogs(chosen)], _EMBEDDED_PARTITIONS)
    broker = await asyncio.to_thread(EmbeddedBroker(topics).start)
    try:
        yield _EMBEDDED_PARTITIONS, broker.url
    finally:
        await asyncio.to_thread(broker.stop)


def child_environ(environ: Mapping[str, str], settings: Settings, given: Mapping[str, str]) -> dict[str, str]:
    """The environment of the children: ours, our flags as variables, and what ``up`` decides by itself."""
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


def _header(settings: Settings, *, embedded: bool) -> str:
    kind = "embedded broker, in memory, gone when this ends" if embedded else "broker"
    return f"dutycycle on {settings.node}: {kind}: {settings.broker}; Ctrl-C stops"


async def _run(children: list[Child], view: LiveView, stop: asyncio.Event, duration_s: float | None) -> bool:
    """Whether a signal ended it, and not the time."""
    drawing = asyncio.create_task(view.run(stop))  # first: the children take all cores for a while
    tasks = [asyncio.create_task(child.run()) for child in children]
    sink, stream, collect = children
    try:
        asked = await stopped_within(stop, duration_s)
        await collect.stop()
        await view.wait_until_idle()
        await stream.stop()
        await sink.stop()
    finally:
        stop.set()
        await asyncio.gather(drawing, *tasks)
    return asked


def _exit_status(settings: Settings, children: list[Child], *, measured: bool) -> int:
    """Says where the records are, and at the end what failed or is away."""
    if settings.records is None and default_records_path().exists():
        _say(f"peak records are in {default_records_path()}: see `dutycycle peaks`")
    reasons = dict.fromkeys(child.reason for child in children if child.status not in (0, None))
    if not reasons and not measured:
        reasons["no sample came in this time: give a longer --duration"] = None
    for reason in reasons:
        _say(f"dutycycle: {reason} (more in {children[0].log.parent})")
    return 1 if reasons else 0


def _say(line: str) -> None:
    print(line, file=sys.stderr)  # noqa: T201
