"""The records sink at work on a database, behind a dispatcher."""

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from itertools import cycle
from json import dumps
from typing import Any

from sqlalchemy import create_engine, insert, text

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.records.pods import JobRef
from dutycycle.contract.settings.groups import Settings
from sinks.records.prices import given_prices
from sinks.records.rows import HOUR_TABLE, JOB_TABLE, POD_TABLE, moment
from sinks.records.sink import RecordsSink
from sinks.records.store import RecordsStore
from sinks.records.tables.schema import TABLES
from sinks.records.writer import RecordsWriter
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.sinks.made import pod_peaks
from tests.support.sinks.rig import TOPIC_OF, AtWork, Rig, at_work

LEDGER = Settings(analyses=("peaks", "usage"))
"""What streams compute for the tables of pods, jobs and hours, without insights: a tenth of the work."""


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


def record_all(records: Iterable[ConsumerRecord], url: str, *, ended: bool = True) -> None:
    """Write what streams make of the records into the database, as ``dutycycle replay --records`` does.

    ``ended``: no more will come, and what is open is closed; else it is as a worker has left it that stopped.
    """
    write_all(derived(records, ended=ended), url)


def derived(
    records: Iterable[ConsumerRecord], settings: Settings = LEDGER, *, ended: bool = True
) -> Iterator[ProducerRecord]:
    """What streams make of the records."""
    pipeline = LocalPipeline(stages(settings))
    for record in records:
        yield from pipeline.feed(record)
    yield from pipeline.close() if ended else pipeline.flush()


def write_all(records: Iterable[ProducerRecord], url: str, settings: Settings = LEDGER) -> None:
    """Write what streams have made into the database."""
    with RecordsWriter(url, prices=given_prices(settings)) as writer:
        for record in records:
            writer.write(record.topic, record.value)


def insert_jobs(url: str, made: Iterable[tuple[str, str, int]], namespaces: Sequence[str] = ("ml",)) -> None:
    """Write jobs that ended, fast: of one pod, by uid, name, and the moment (Unix ms) from which on they used
    half a GPU hour. They are of the ``namespaces`` in turn, with that as the label ``team``."""
    open_store(url).close()
    rows: dict[str, list[dict[str, Any]]] = {JOB_TABLE: [], POD_TABLE: [], HOUR_TABLE: []}
    for (uid, name, first_ms), namespace in zip(made, cycle(namespaces)):
        last_ms, pod_uid = first_ms + HOUR_MS // 2, f"p-{uid}"
        first, last = moment(first_ms), moment(last_ms)
        job = JobRef(api_version="v1", kind="Job", name=name, uid=uid)
        labels = {"team": namespace}
        of_pod = {"name": name, "node": "n", "phase": "Succeeded", "labels": labels, "namespace": namespace}
        record = pod_peaks(pod_uid, {**of_pod, "job": job}, first_ms=first_ms, last_ms=last_ms, final=True)
        whole = {"namespace": namespace, "final": True, "gpus": 1, "first_at": first, "last_at": last}
        rows[JOB_TABLE].append(
            whole
            | {"record": "{}", "job_uid": uid, "kind": "Job", "api_version": "v1", "name": name, "pods": 1}
        )
        rows[POD_TABLE].append(
            whole | of_pod | {"record": encode(record).decode(), "labels": dumps(labels), "pod_uid": pod_uid,
                              "job_uid": uid, "job_name": name, "samples": 1, "started_at": first}
        )  # fmt: skip
        rows[HOUR_TABLE].append(
            {"hour": moment(first_ms // HOUR_MS * HOUR_MS), "node": "n", "pod_uid": pod_uid, "gpu": "G",
             "until": last, "gpu_s": 1800, "gpu_known_s": 1800, "gpu_busy_s": 900}
        )  # fmt: skip
    engine = create_engine(url)
    with engine.begin() as connection:
        for name, values in rows.items():
            connection.execute(insert(TABLES[name]), values)
    engine.dispose()
