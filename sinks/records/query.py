"""Reads peak records back, also while a sink writes: what ``dutycycle peaks`` and other tools use."""

from sqlalchemy import URL, Connection, Text, cast, exc, inspect, or_, select

from contract.codec import decode
from contract.records.derived import JobPeaks, PodPeaks
from sinks.records.engine import make_engine, reason_of
from sinks.records.rows import JOB_TABLE, POD_TABLE, started_ms
from sinks.records.schema import TABLES, VERSION, version_table
from sinks.records.store import RecordsRefusedError
from sinks.records.url import parse_records_url, shown, sqlite_path

_JOB_NAMES = {POD_TABLE: ("job_uid", "job_name"), JOB_TABLE: ("job_uid", "name")}


def pod_peaks(
    url: str, namespace: str | None = None, job: str | None = None, name: str | None = None
) -> list[PodPeaks]:
    """Every pod's record, sorted by namespace, job, name, start, uid; ``job`` is a job's name or uid.

    A name that was used again has a record for each incarnation (``started_ms`` tells them apart).

    Raises ``DutycycleError`` when the database is not there, is not ours, or cannot be read.
    """
    found = [
        decode(PodPeaks, text.encode(), "pod-peaks")
        for text in _records(url, POD_TABLE, namespace, job, name)
    ]
    return sorted(found, key=_pod_order)


def job_peaks(url: str, namespace: str | None = None, job: str | None = None) -> list[JobPeaks]:
    """Every job's record, sorted by namespace, name, uid; ``job`` is a job's name or uid."""
    found = [
        decode(JobPeaks, text.encode(), "job-peaks") for text in _records(url, JOB_TABLE, namespace, job)
    ]
    return sorted(found, key=lambda record: (record.namespace or "", record.job.name, record.job.uid))


def _pod_order(record: PodPeaks) -> tuple[str, str, str, int, str]:
    pod = record.pod
    return pod.namespace or "", pod.job.name if pod.job else "", pod.name, started_ms(record), pod.uid


def _records(
    url: str, table: str, namespace: str | None, job: str | None, name: str | None = None
) -> list[str]:
    """The JSON of the rows of ``table``, narrowed to a namespace, a job's name or uid, and a name.

    Raises ``RecordsRefusedError`` when there is no such database or nothing of ours in it.
    """
    parsed = parse_records_url(url)
    path = sqlite_path(parsed)
    if path is not None and not path.exists():
        raise RecordsRefusedError(_nothing(parsed))
    engine = make_engine(parsed, writing=False)
    try:
        with engine.connect() as connection:
            _check(connection, parsed)
            return _select(connection, table, namespace, job, name)
    except (exc.SQLAlchemyError, OSError) as error:
        reason = reason_of(error, parsed)
        raise RecordsRefusedError(
            f"cannot read peak records in {shown(parsed)}: {reason}; check DUTYCYCLE_RECORDS or --records"
        ) from None  # the cause's own text may hold the password
    finally:
        engine.dispose()


def _check(connection: Connection, url: URL) -> None:
    if not inspect(connection).has_table(version_table.name):
        raise RecordsRefusedError(_nothing(url))
    found = connection.scalar(select(version_table.c.version))
    if found != VERSION:
        raise RecordsRefusedError(
            f"the peak records in {shown(url)} have schema version {found}, this Dutycycle knows {VERSION}"
        )


def _nothing(url: URL) -> str:
    return (
        f"there are no peak records in {shown(url)} yet: "
        "run `dutycycle up`, `dutycycle sink` or `dutycycle replay --records`, or set DUTYCYCLE_RECORDS"
    )


def _select(
    connection: Connection, table: str, namespace: str | None, job: str | None, name: str | None
) -> list[str]:
    columns = TABLES[table].c
    query = select(cast(columns.record, Text))
    if namespace is not None:
        query = query.where(columns.namespace == namespace)
    if job is not None:
        query = query.where(or_(*(columns[one] == job for one in _JOB_NAMES[table])))
    if name is not None:
        query = query.where(columns.name == name)
    return list(connection.scalars(query))
