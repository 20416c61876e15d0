"""Defines the tables, in SQLite and PostgreSQL; ``sinks.records.tables.views`` has the views, which people
read.

``pod_peaks``, ``job_peaks`` and ``insights`` have a row each for a pod and a job, kept after they are gone. A
pod's name that is used again is a row of its own, told from the one before by node and ``started_at``.
``usage_hours`` has a row for each hour, node, pod and GPU; in time the hours become days in ``usage_days``.
``node_peaks`` has a row for each day (UTC), node and source, ``gpu_events`` one for each incident of a GPU
and each pod that used it.
"""

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Double,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    insert,
    inspect,
    literal_column,
    select,
    text,
    update,
)
from sqlalchemy.exc import DBAPIError

from dutycycle.contract.errors import DutycycleError
from sinks.records.rows import (
    COSTS,
    EVENT_TABLE,
    FIGURES,
    HOUR_TABLE,
    INSIGHT_TABLE,
    JOB_TABLE,
    NODE_FIGURES,
    NODE_TABLE,
    PARTS,
    POD_TABLE,
    USED,
    Figures,
)
from sinks.records.tables.columns import Document, UtcTime
from sinks.records.tables.views import VIEWS, create_view

VERSION = 6
"""A database of another version is refused: see ``prepare``."""
_ADVISORY_LOCK = 0x6475747963796C65  # letters of our name: a number that no other program takes
metadata = MetaData()


def _metric_columns(figures: Figures = FIGURES) -> list[Column[float]]:
    return _numbers(f"{figure}_{metric}" for figure, metric in figures)


def _numbers(names: Iterable[str]) -> list[Column[float]]:
    return [Column(name, Double) for name in names]


version_table = Table(
    "dutycycle_schema", metadata, Column("version", Integer, primary_key=True, autoincrement=False)
)
pod_peaks = Table(
    POD_TABLE,
    metadata,
    Column("pod_uid", Text, primary_key=True),
    Column("namespace", Text),
    Column("name", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("phase", Text, nullable=False),
    Column("job_uid", Text, index=True),
    Column("job_kind", Text),
    Column("job_name", Text),
    Column("labels", Document, nullable=False),
    Column("gpu_request", Double),
    Column("cpu_request", Double),
    Column("mem_request_bytes", Double),
    Column("first_at", UtcTime, nullable=False),
    Column("last_at", UtcTime, nullable=False, index=True),
    Column("samples", BigInteger, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("gpus", Integer, nullable=False),
    Column("started_at", UtcTime, nullable=False),
    *_metric_columns(),
    Column("record", Document, nullable=False),
    Index("ix_pod_peaks_name", "namespace", "name"),
    Index("ix_pod_peaks_incarnation", "namespace", "name", "node", "started_at"),
    # For how names begin, which PostgreSQL finds by this order in whatever language it sorts.
    Index("ix_pod_peaks_job_name", "namespace", "job_name", postgresql_ops={"job_name": "text_pattern_ops"}),
)
job_peaks = Table(
    JOB_TABLE,
    metadata,
    Column("job_uid", Text, primary_key=True),
    Column("namespace", Text),
    Column("kind", Text, nullable=False),
    Column("api_version", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("first_at", UtcTime, nullable=False),
    Column("last_at", UtcTime, nullable=False, index=True),
    Column("final", Boolean, nullable=False),
    Column("pods", Integer, nullable=False),
    Column("gpus", Integer, nullable=False),
    *_metric_columns(),
    Column("record", Document, nullable=False),
    Index("ix_job_peaks_name", "namespace", "name", postgresql_ops={"name": "text_pattern_ops"}),
)
node_peaks = Table(
    NODE_TABLE,
    metadata,
    Column("day", UtcTime, primary_key=True),
    Column("node", Text, primary_key=True, index=True),
    Column("source", Text, primary_key=True),
    Column("first_at", UtcTime, nullable=False),
    Column("last_at", UtcTime, nullable=False),
    Column("samples", BigInteger, nullable=False),
    Column("gpus", Integer, nullable=False),
    *_metric_columns(NODE_FIGURES),
    Column("record", Document, nullable=False),
)
usage_hours = Table(
    HOUR_TABLE,
    metadata,
    Column("hour", UtcTime, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("pod_uid", Text, primary_key=True, index=True),
    Column("gpu", Text, primary_key=True),
    Column("until", UtcTime, nullable=False),
    Column("gpu_model", Text),
    Column("attribution", Text),
    *_numbers(USED),
)
insights = Table(
    INSIGHT_TABLE,
    metadata,
    Column("subject", Text, primary_key=True),
    Column("pod_uid", Text, index=True),
    Column("job_uid", Text, index=True),
    Column("kind", Text, nullable=False),
    Column("kind_confidence", Double, nullable=False),
    Column("bottleneck", Text, nullable=False),
    Column("bottleneck_confidence", Double, nullable=False),
    Column("period_s", Double),
    Column("period_confidence", Double),
    Column("period_source", Text),
    Column("cycle_steps", BigInteger),
    Column("steps_per_s", Double),
    Column("samples_per_s", Double),
    Column("mem_full_at", UtcTime),
    Column("gpu_mem_full_at", UtcTime),
    Column("idle_since", UtcTime),
    Column("since", UtcTime, nullable=False),
    Column("at", UtcTime, nullable=False),
    Column("advice", Text),
    Column("evidence", Document, nullable=False),
)
gpu_events = Table(
    EVENT_TABLE,
    metadata,
    Column("gpu", Text, primary_key=True),
    Column("at", UtcTime, primary_key=True, index=True),
    Column("event", Text, primary_key=True),
    Column("pod_uid", Text, primary_key=True, index=True),
    Column("node", Text, nullable=False, index=True),
    Column("gpu_index", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("code", BigInteger),
    Column("count", BigInteger, nullable=False),
    Column("severity", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("action", Text),
    Column("inferred", Boolean, nullable=False),
    *(Column(name, Text) for name in ("mig", "namespace", "pod", "job", "job_kind")),
    Column("job_uid", Text, index=True),
)
TABLES = {
    POD_TABLE: pod_peaks, JOB_TABLE: job_peaks, NODE_TABLE: node_peaks, HOUR_TABLE: usage_hours,
    INSIGHT_TABLE: insights, EVENT_TABLE: gpu_events,
}  # fmt: skip
"""What records become."""
usage_days = Table(
    "usage_days",
    metadata,
    Column("day", UtcTime, primary_key=True),
    Column("node", Text, primary_key=True),
    Column("pod_uid", Text, primary_key=True, index=True),
    Column("gpu", Text, primary_key=True),
    Column("gpu_model", Text),
    Column("attribution", Text),
    *_numbers((*USED, *COSTS, *PARTS)),
)
rolled_up = Table("usage_rolled_up", metadata, Column("until", UtcTime, primary_key=True))
"""Until when the hours have become days: what is written of an earlier hour counts no more."""
prices = Table(
    "prices",
    metadata,
    Column("since", UtcTime, primary_key=True),
    Column("what", Text, primary_key=True),
    Column("gpu_model", Text, primary_key=True),
    Column("price", Double),
)
usage_costs = Table(
    "usage_costs",
    MetaData(),
    *(Column(of_hour.name, of_hour.type) for of_hour in usage_hours.c),
    *_numbers((*COSTS, *PARTS)),
)
"""Names the view of the hours and what they cost; no table to be made, it has metadata of its own."""
OTHER_TABLES = {other_table.name: other_table for other_table in (usage_days, rolled_up, prices)}


def prepare(connection: Connection) -> None:
    """Make the schema on first use; check its version and that we may write. Inside a transaction."""
    if connection.dialect.name == "postgresql":  # two sinks may start at the same moment
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
    if not inspect(connection).has_table(version_table.name):
        metadata.create_all(connection)
        _create_views(connection)
        connection.execute(insert(version_table).values(version=VERSION))
    version = connection.scalar(select(version_table.c.version))
    if version != VERSION:
        raise DutycycleError(
            f"its schema has version {version}, this Dutycycle knows {VERSION}: "
            "use the Dutycycle that wrote it, or give another database"
        )
    if not inspect(connection).has_table(gpu_events.name):  # the database is older than it
        gpu_events.create(connection)
    _add_columns(connection)
    for name, table in TABLES.items():  # touches no row, but the database checks our rights
        column = next(iter(table.c)).name
        connection.execute(text(f"INSERT INTO {name} SELECT * FROM {name} WHERE 1 = 0"))  # noqa: S608
        connection.execute(text(f"UPDATE {name} SET {column} = {column} WHERE 1 = 0"))  # noqa: S608


def _create_views(connection: Connection) -> None:
    for name in VIEWS:
        connection.execute(text(create_view(name, connection.dialect.name)))


def missing_columns(connection: Connection) -> list[Column[Any]]:
    """List the columns that are younger than the database, of the tables that it has."""
    inspector = inspect(connection)
    return [
        column
        for table in (*TABLES.values(), *OTHER_TABLES.values())
        if inspector.has_table(table.name)
        for present in ({column["name"] for column in inspector.get_columns(table.name)},)
        for column in table.columns
        if column.name not in present
    ]


def _add_columns(connection: Connection) -> None:
    """Add the columns that are younger than the database, and make the views anew that name them.

    The columns are NULL in rows that were written before, but for ``PARTS`` of days, whose hours are gone:
    what is known of such a day counts as known of all of it. With NULL, cost and energy of a year in which
    days got them would be those of a part of it. An older sink that still writes does not name the columns.
    """
    missing = missing_columns(connection)
    if not missing:
        return
    for name in reversed(VIEWS):
        try:
            connection.execute(text(f"DROP VIEW IF EXISTS {name}"))
        except DBAPIError as error:  # in PostgreSQL, where a view of the user's reads it
            raise DutycycleError(
                f"the view {name} has to be made anew, for a column that is younger than it, and cannot be: "
                f"{str(error.orig).splitlines()[0]}; drop the views that read it, start, and make them anew"
            ) from error
    for column in missing:
        kind = column.type.compile(connection.dialect)
        connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {kind}"))
    names = [column.name for column in missing if column.table is usage_days and column.name in PARTS]
    if names:
        connection.execute(update(usage_days).values({name: literal_column(PARTS[name]) for name in names}))
    _create_views(connection)
