"""The records sink at work on a database, behind a dispatcher."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sinks.dispatcher import Dispatcher
from sinks.records.sink import RecordsSink
from sinks.records.store import RecordsStore
from tests.support.sinks.rig import Rig, at_work


@asynccontextmanager
async def running(rig: Rig, url: str, **limits: Any) -> AsyncIterator[tuple[Dispatcher, RecordsSink]]:
    """A sink that writes, behind a dispatcher."""
    store = RecordsStore(url)
    store.open()
    sink = RecordsSink(store, rig.letters, rig.telemetry, **limits)
    async with at_work(rig, sink) as dispatcher:
        yield dispatcher, sink
