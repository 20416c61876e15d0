"""The records sink at work on a database, behind a dispatcher."""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import create_engine, text

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.settings.groups import Settings
from sinks.records.prices import given_prices
from sinks.records.sink import RecordsSink
from sinks.records.store import RecordsStore
from sinks.records.writer import RecordsWriter
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.sinks.rig import TOPIC_OF, AtWork, Rig, at_work

DEFAULTS = Settings()


def open_store(url: str, **options: Any) -> RecordsStore:
    """Open a store, with its tables."""
    store = RecordsStore(url, **options)
    store.open()
    return store


def write_records(url: str, *records: Any, batch: int = 500) -> None:
    """Write derived records, as a replay does."""
    with RecordsWriter(url, batch=batch) as writer:
        for record in records:
            writer.write(TOPIC_OF[type(record)], encode(record))


def read_rows(url: str, query: str) -> list[tuple[Any, ...]]:
    """Read what a query answers."""
    engine = create_engine(url)
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(text(query))]
    engine.dispose()
    return rows


@asynccontextmanager
async def running(url: str, rig: Rig | None = None, **limits: Any) -> AsyncIterator[AtWork[RecordsSink]]:
    """A sink that writes, behind a dispatcher."""
    rig = rig or Rig()
    store = open_store(url)
    sink = RecordsSink(store, rig.letters, rig.telemetry, **limits)
    async with at_work(rig, sink) as work:
        yield work


def unix_ms(at: str | datetime) -> int:
    """A moment as a database gives it: a timestamp of PostgreSQL, or the text that SQLite keeps."""
    found = datetime.fromisoformat(at) if isinstance(at, str) else at
    return round(found.timestamp() * 1000)


def record_all(
    records: Iterable[ConsumerRecord], url: str, settings: Settings = DEFAULTS, *, ended: bool = True
) -> None:
    """Write what streams make of the records into the database, as ``dutycycle replay --records`` does.

    ``ended``: no more will come, and what is open is closed; else it is as a worker has left it that stopped.
    """
    write_all(derived(records, settings, ended=ended), url, settings)


def derived(
    records: Iterable[ConsumerRecord], settings: Settings = DEFAULTS, *, ended: bool = True
) -> Iterator[ProducerRecord]:
    """What streams make of the records."""
    pipeline = LocalPipeline(stages(settings))
    for record in records:
        yield from pipeline.feed(record)
    yield from pipeline.close() if ended else pipeline.flush()


def write_all(records: Iterable[ProducerRecord], url: str, settings: Settings = DEFAULTS) -> None:
    """Write what streams have made into the database."""
    with RecordsWriter(url, prices=given_prices(settings)) as writer:
        for record in records:
            writer.write(record.topic, record.value)
