"""Reads peak records back, also while a sink writes: what ``dutycycle peaks`` and other tools use."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Text,
    cast,
    exc,
    inspect,
    literal,
    or_,
    select,
    text,
    true,
)

from dutycycle.contract.codec import decode
from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.records.derived import JobPeaks, NodePeaks, PodPeaks
from sinks.records.engine import make_engine, reason_of
from sinks.records.rows import EVENT_TABLE, JOB_TABLE, NODE_TABLE, POD_TABLE, in_order, moment, started_ms
from sinks.records.store import RecordsRefusedError
from sinks.records.tables.columns import UtcTime
from sinks.records.tables.schema import TABLES, VERSION, missing_columns, version_table
from sinks.records.url import parse_records_url, shown, sqlite_path

_JOB_NAMES = {POD_TABLE: ("job_uid", "job_name"), JOB_TABLE: ("job_uid", "name")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Which:
    """Says which records are wanted: of a namespace, of a job by name or uid, of pods of a name, of what ran
    on a node, was seen since a moment, and of pods with a label (any value: ``""``), or jobs with such
    pods."""

    namespace: str | None = None
    job: str | None = None
    name: str | None = None
    node: str | None = None
    since_ms: int | None = None
    label: tuple[str, str] | None = None


ALL = Which()
_MOST_EVENTS = 100
_OF_HIT_PODS = ("pod_uid", "namespace", "pod", "job", "job_kind", "job_uid")


def pod_peaks(url: str, which: Which = ALL) -> list[PodPeaks]:
    """Return every pod's record, sorted by namespace, job, name, start, uid.

    A name that was used again has a record for each incarnation (``started_ms`` tells them apart).

    Raises ``DutycycleError`` when the database is not there, is not ours, or cannot be read.
    """
    records = [decode(PodPeaks, in_order(text), "pod-peaks") for text in _records(url, POD_TABLE, which)]
    return sorted(records, key=_pod_order)


def job_peaks(url: str, which: Which = ALL) -> list[JobPeaks]:
    """Return every job's record, sorted by namespace, name, uid. Raises as ``pod_peaks``."""
    records = [decode(JobPeaks, in_order(text), "job-peaks") for text in _records(url, JOB_TABLE, which)]
    if which.node is not None:
        records = [
            record for record in records if any(pod.node == which.node for pod in record.pods.values())
        ]
    return sorted(records, key=lambda record: (record.namespace or "", record.job.name, record.job.uid))


def node_peaks(url: str, which: Which = ALL) -> list[NodePeaks]:
    """Give what each node needed on each day, by source, sorted by node and day. Raises as ``pod_peaks``."""
    records = [decode(NodePeaks, in_order(text), "node-peaks") for text in _records(url, NODE_TABLE, which)]
    return sorted(records, key=lambda record: (record.node, record.day_ms, record.source))


def _pod_order(record: PodPeaks) -> tuple[str, str, str, int, str]:
    pod = record.pod
    return pod.namespace or "", pod.job.name if pod.job else "", pod.name, started_ms(record), pod.uid


def gpu_events(
    url: str, node: str, gpu: str | None, since_ms: int, namespaces: Collection[str] | None = None
) -> Sequence[Mapping[str, Any]]:
    """Return the newest events of a GPU, or of all those of a node, a row for each pod that it hit. Without
    the names of pods that are not of ``namespaces``, if that is not None.

    Raises ``DutycycleError`` when the database cannot be read.
    """
    events = TABLES[EVENT_TABLE]
    wanted = select(events).where(events.c.node == node, events.c.at >= literal(moment(since_ms), UtcTime))
    if gpu is not None:
        wanted = wanted.where(events.c.gpu == gpu)
    with reading(url) as connection:
        newest = wanted.order_by(events.c.at.desc()).limit(_MOST_EVENTS)
        rows = [dict(row) for row in connection.execute(newest).mappings()]
    for row in rows:
        if namespaces is not None and row["namespace"] not in namespaces:
            row |= dict.fromkeys(_OF_HIT_PODS)
    return rows


@contextmanager
def reading(url: str) -> Iterator[Connection]:
    """Open a connection to a database of ours, to read from.

    Raises ``RecordsRefusedError`` when there is no such database or nothing of ours in it.
    """
    parsed = parse_records_url(url)
    path = sqlite_path(parsed)
    if path is not None and not path.exists():
        raise RecordsRefusedError(_nothing(parsed))
    engine = make_engine(parsed, writing=False)
    try:
        with engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                # Compiling a sum over the views takes PostgreSQL longer than the sum itself.
                connection.execute(text("SET LOCAL jit = off"))
            if not inspect(connection).has_table(version_table.name):
                raise RecordsRefusedError(_nothing(parsed))
            version = connection.scalar(select(version_table.c.version))
            if version != VERSION:
                raise RecordsRefusedError(
                    f"the peak records in {shown(parsed)} have schema version {version}, "
                    f"this Dutycycle knows {VERSION}"
                )
            yield connection
    except (exc.SQLAlchemyError, OSError) as error:
        reason, advice = reason_of(error, parsed), "check DUTYCYCLE_RECORDS or --records"
        if isinstance(error, exc.DBAPIError):
            # Columns may be missing that our sink adds; perhaps that cannot be read either.
            with suppress(exc.SQLAlchemyError), engine.connect() as connection:
                if missing_columns(connection):
                    advice = (
                        "they are older than this Dutycycle: start its sink with them once, which adds those"
                    )
        raise RecordsRefusedError(
            f"cannot read peak records in {shown(parsed)}: {reason}; {advice}"
        ) from None  # the cause's own text may hold the password
    finally:
        engine.dispose()


def require_namespace(url: str, name: str | None) -> None:
    """Raises ``UnknownNameError`` if nothing was recorded of the namespace, and says which there are."""
    if name is not None:
        with reading(url) as connection:
            check_namespace(connection, name)


def read_namespaces(url: str) -> set[str]:
    """Return the namespaces of which anything was recorded. Raises as ``pod_peaks``."""
    with reading(url) as connection:
        names = (
            connection.scalars(select(TABLES[of].c.namespace).distinct()) for of in (POD_TABLE, JOB_TABLE)
        )
        return {name for of_table in names for name in of_table if name}


def may_be_seen(namespace: ColumnElement[Any], namespaces: Collection[str] | None) -> ColumnElement[bool]:
    """Say in SQL whether a namespace is one of those that may be seen; None is all."""
    return true() if namespaces is None else namespace.in_(namespaces)


def check_namespace(
    connection: Connection, name: str | None, namespaces: Collection[str] | None = None
) -> None:
    """Do as ``require_namespace``, over an open connection. Those of ``namespaces`` alone are there, if that
    is not None."""
    if name is not None:
        known = TABLES[POD_TABLE].c.namespace
        seen = select(known).where(may_be_seen(known, namespaces))
        if connection.scalar(seen.where(known == name).limit(1)) is None:
            there = connection.scalars(seen.distinct())
            check_name("namespace", name, [name for name in there if name], "--namespace")


def check_name(what: str, name: str, there: Sequence[str], flag: str) -> None:
    """Raises ``UnknownNameError`` if ``name`` is none of those that are there."""
    if name not in there:
        names = f"there are: {', '.join(sorted(there))}" if there else "there are none yet"
        raise UnknownNameError(f"{flag} {name}: there is no such {what}; {names}")


class UnknownNameError(DutycycleError):
    """Says that nothing of that name was recorded."""


def _records(url: str, table: str, which: Which) -> list[str]:
    """Return the JSON of the rows of ``table`` that are wanted; of jobs, on whatever node."""
    columns, pods = TABLES[table].c, TABLES[POD_TABLE].c
    query = select(cast(columns.record, Text))
    if which.namespace is not None:
        query = query.where(columns.namespace == which.namespace)
    if which.job is not None:
        query = query.where(or_(*(columns[column] == which.job for column in _JOB_NAMES[table])))
    if which.name is not None:
        query = query.where(columns.name == which.name)
    if which.since_ms is not None:
        query = query.where(columns.last_at >= moment(which.since_ms))
    if which.node is not None and table != JOB_TABLE:
        query = query.where(columns.node == which.node)
    if which.label is not None:
        key, value = which.label
        has = pods.labels.op("->>")(literal(key, Text))
        labelled = select(pods.pod_uid, pods.job_uid).where(has == value if value else has.is_not(None))
        uid = "pod_uid" if table == POD_TABLE else "job_uid"
        query = query.where(columns[uid].in_(select(labelled.subquery().c[uid])))
    with reading(url) as connection:
        return list(connection.scalars(query))


def _nothing(url: URL) -> str:
    return (
        f"there are no peak records in {shown(url)} yet: "
        "run `dutycycle up`, `dutycycle sink` or `dutycycle replay --records`, or set DUTYCYCLE_RECORDS"
    )
