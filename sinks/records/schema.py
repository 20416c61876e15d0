"""Tables and views of the peak records, in SQLite and PostgreSQL.

``pod_peaks`` and ``job_peaks`` have a row each for a pod and a job, kept after they are gone. The views
(``pod_peak_metrics``, ``pod_peak_gpus``, ``pod_peak_processes``, ``job_peak_metrics``, ``job_peak_pods``)
unfold the JSON of the record into one row per metric; they cost nothing to keep. ``parts`` is NULL but where
an accumulation was lost: see ``records_merge``. A pod's name that is used again is a row of its own, told
from the one before by node and ``started_ms``.
"""

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
    literal,
    select,
    text,
    update,
)
from sqlalchemy.types import UserDefinedType

from contract.errors import DutycycleError
from sinks.records.rows import COLUMN_METRICS, JOB_TABLE, POD_TABLE
from sinks.records.views import VIEWS, create_view

VERSION = 2
"""1: as first released. 2: ``pod_peaks.started_ms``, and ``parts`` of both tables."""
_ADVISORY_LOCK = 0x6475747963796C65
metadata = MetaData()


class RecordText(UserDefinedType[str]):
    """A record as the JSON text that it crossed Kafka with.

    In PostgreSQL of type JSON and not JSONB, which would sort the keys and rewrite the numbers.
    """

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """The column's type; SQLite knows it by affinity only and keeps text."""
        return "JSON"


def _metric_columns() -> list[Column[float]]:
    names = [f"{figure}_{metric}" for metric in COLUMN_METRICS for figure in ("max", "mean")]
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
    Column("first_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False, index=True),
    Column("samples", BigInteger, nullable=False),
    Column("final", Boolean, nullable=False),
    Column("gpus", Integer, nullable=False),
    *_metric_columns(),
    Column("record", RecordText, nullable=False),
    Column("started_ms", BigInteger),
    Column("parts", Text),
    Index("ix_pod_peaks_name", "namespace", "name"),
    Index("ix_pod_peaks_life", "namespace", "name", "node", "started_ms"),
)
job_peaks = Table(
    JOB_TABLE,
    metadata,
    Column("job_uid", Text, primary_key=True),
    Column("namespace", Text),
    Column("kind", Text, nullable=False),
    Column("api_version", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("first_ms", BigInteger, nullable=False),
    Column("last_ms", BigInteger, nullable=False, index=True),
    Column("final", Boolean, nullable=False),
    Column("pods", Integer, nullable=False),
    *_metric_columns(),
    Column("record", RecordText, nullable=False),
    Column("parts", Text),
    Index("ix_job_peaks_name", "namespace", "name"),
)
TABLES = {POD_TABLE: pod_peaks, JOB_TABLE: job_peaks}


def prepare(connection: Connection) -> None:
    """Make the schema on first use; check its version and that we may write. Inside a transaction."""
    if connection.dialect.name == "postgresql":  # two sinks may start at the same moment
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
    if not inspect(connection).has_table(version_table.name):
        _create(connection)
    found = connection.scalar(select(version_table.c.version))
    if found == 1:
        _migrate(connection)
    elif found != VERSION:
        raise DutycycleError(
            f"its schema has version {found}, this Dutycycle knows {VERSION}: "
            "use the Dutycycle that wrote it, or give another database"
        )
    connection.execute(update(version_table).values(version=VERSION))
    for table in TABLES.values():  # touches no row, but the database checks our rights
        nothing = literal(1) == 0
        connection.execute(insert(table).from_select(list(table.c), select(table).where(nothing)))
        connection.execute(update(table).values(last_ms=table.c.last_ms).where(nothing))


_FROM_1 = (
    "ALTER TABLE pod_peaks ADD COLUMN started_ms BIGINT",
    "ALTER TABLE pod_peaks ADD COLUMN parts TEXT",
    "ALTER TABLE job_peaks ADD COLUMN parts TEXT",
    "CREATE INDEX ix_pod_peaks_life ON pod_peaks (namespace, name, node, started_ms)",
    "UPDATE pod_peaks SET started_ms = coalesce(CAST(record -> 'pod' ->> 'started_ms' AS BIGINT), "
    "CAST(record -> 'pod' ->> 'created_ms' AS BIGINT), first_ms)",
)


def _migrate(connection: Connection) -> None:
    """Version 1 to 2, by adding alone: whoever reads the tables by name of the columns is not disturbed."""
    for statement in _FROM_1:
        connection.execute(text(statement))


def _create(connection: Connection) -> None:
    metadata.create_all(connection)
    for name in VIEWS:
        connection.execute(text(create_view(name)))
    connection.execute(insert(version_table).values(version=VERSION))
