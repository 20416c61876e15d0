"""Selects peak records out of SQL. The half of ``sinks.records.query`` that knows SQLAlchemy."""

from sqlalchemy import URL, Connection, Text, cast, exc, inspect, or_, select

from sinks.records.rows import JOB_TABLE, POD_TABLE
from sinks.records.schema import TABLES, VERSION, version_table
from sinks.records.store import RecordsRefusedError, make_engine, reason_of
from sinks.records.url import parse_records_url, shown, sqlite_path

_JOB_NAMES = {POD_TABLE: ("job_uid", "job_name"), JOB_TABLE: ("job_uid", "name")}


def select_records(
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
    if found not in range(1, VERSION + 1):  # what a version adds is not needed for reading
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
