"""Runs the whole pipeline on this machine: broker, collector, streams, sinks, and a live view."""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from bus.kafka.embedded import EmbeddedBroker
from contract.settings.groups import PREFIX, Settings
from contract.topics import TOPICS, full_name
from dutycycle.live.children import Child
from dutycycle.live.follow import LiveView
from dutycycle.process import stop_on_signals, stopped_within
from sinks.records.url import default_records_path, default_records_url
from streams.app import changelog_topics
from streams.topology import stages

_EMBEDDED_PARTITIONS = 2
_COMMANDS = ("sink", "stream", "collect")


async def up(settings: Settings, given: Mapping[str, str], duration_s: float | None) -> int:
    """Run until a signal, or for ``duration_s``; 0 when everything ended in good order."""
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
        await _run(children, view, stop, duration_s)
    return _exit_status(settings, children)


@asynccontextmanager
async def _broker(settings: Settings) -> AsyncIterator[tuple[int | None, str]]:
    """(partitions, URL) of the embedded broker, or (None, URL) of the one that the settings name."""
    if settings.broker is not None:
        yield None, settings.broker
        return
    chosen = replace(settings, partitions=_EMBEDDED_PARTITIONS)
    names = [full_name(settings.topic_prefix, name) for name in TOPICS]
    topics = dict.fromkeys([*names, *changelog_topics(chosen, stages(chosen))], _EMBEDDED_PARTITIONS)
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


async def _run(children: list[Child], view: LiveView, stop: asyncio.Event, duration_s: float | None) -> None:
    tasks = [asyncio.create_task(child.run()) for child in children]
    drawing = asyncio.create_task(view.run(stop))
    sink, stream, collect = children
    try:
        await stopped_within(stop, duration_s)
        await collect.stop()
        await view.wait_until_idle()
        await stream.stop()
        await sink.stop()
    finally:
        stop.set()
        await asyncio.gather(drawing, *tasks)


def _exit_status(settings: Settings, children: list[Child]) -> int:
    """Says what failed, and where the records are."""
    # SIGTERM by its number: it came before the interpreter could handle it.
    failed = [child for child in children if child.status not in (0, None, -signal.SIGTERM)]
    for child in failed:
        print(f"dutycycle: {child.name} ended with status {child.status}: see {child.log}", file=sys.stderr)  # noqa: T201
    if settings.records is None:
        print(f"peak records are in {Path(default_records_path())}: see `dutycycle peaks`", file=sys.stderr)  # noqa: T201
    return 1 if failed else 0
