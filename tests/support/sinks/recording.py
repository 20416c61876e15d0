"""The records sink at work on a database, behind a dispatcher."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.settings.groups import Settings
from sinks.dispatcher import Dispatcher
from sinks.records.prices import given_prices
from sinks.records.sink import RecordsSink
from sinks.records.store import RecordsStore
from sinks.records.writer import RecordsWriter
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.sinks.rig import Rig, at_work

DEFAULTS = Settings()


@asynccontextmanager
async def running(rig: Rig, url: str, **limits: Any) -> AsyncIterator[tuple[Dispatcher, RecordsSink]]:
    """A sink that writes, behind a dispatcher."""
    store = RecordsStore(url)
    store.open()
    sink = RecordsSink(store, rig.letters, rig.telemetry, **limits)
    async with at_work(rig, sink) as dispatcher:
        yield dispatcher, sink


def unix_ms(at: str | datetime) -> int:
    """A moment as a database gives it: a timestamp of PostgreSQL, or the text that SQLite keeps."""
    found = datetime.fromisoformat(at) if isinstance(at, str) else at
    return round(found.timestamp() * 1000)


def record_all(
    records: Iterable[ConsumerRecord], url: str, settings: Settings = DEFAULTS, *, ended: bool = True
) -> None:
    """Write what streams make of the records into the database, as ``dutycycle replay --records`` does.

    ``ended``: no more will come, and what is open is closed.
    """
    write_all(derived(records, settings, ended=ended), url, settings)


def derived(
    records: Iterable[ConsumerRecord], settings: Settings = DEFAULTS, *, ended: bool = True
) -> Iterator[ProducerRecord]:
    """What streams make of the records."""
    pipeline = LocalPipeline(stages(settings))
    for record in records:
        yield from pipeline.feed(record)
    if ended:
        yield from pipeline.close()


def write_all(records: Iterable[ProducerRecord], url: str, settings: Settings = DEFAULTS) -> None:
    """Write what streams have made into the database."""
    with RecordsWriter(url, prices=given_prices(settings)) as writer:
        for record in records:
            writer.write(record.topic, record.value)
