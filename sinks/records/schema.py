"""Tables and views of the peak records, in SQLite and PostgreSQL.

``pod_peaks`` and ``job_peaks`` have a row each for a pod and a job, kept after they are gone. The views
(``pod_peak_metrics``, ``pod_peak_gpus``, ``pod_peak_processes``, ``job_peak_metrics``, ``job_peak_pods``)
unfold the JSON of the record into one row per metric; they cost nothing to keep. A pod's name that is used
again is a row of its own, told from the one before by node and ``started_ms``.
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

VERSION = 3
"""A database of another version is refused: see ``prepare``."""
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
    Column("started_ms", BigInteger, nullable=False),
    *_metric_columns(),
    Column("record", RecordText, nullable=False),
    Index("ix_pod_peaks_name", "namespace", "name"),
    Index("ix_pod_peaks_incarnation", "namespace", "name", "node", "started_ms"),
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
    Index("ix_job_peaks_name", "namespace", "name"),
)
TABLES = {POD_TABLE: pod_peaks, JOB_TABLE: job_peaks}


# ``->``, ``->>`` and ``json_each`` mean the same in SQLite (3.38 and newer) and in PostgreSQL.
VIEWS = {
    "pod_peak_metrics": ("t.pod_uid", "pod_peaks AS t, json_each(t.record -> 'metrics') AS m"),
    "pod_peak_gpus": (
        "t.pod_uid, g.key AS gpu",
        "pod_peaks AS t, json_each(t.record -> 'gpus') AS g, json_each(g.value) AS m",
    ),
    "pod_peak_processes": (
        "t.pod_uid, p.key AS process",
        "pod_peaks AS t, json_each(t.record -> 'processes') AS p, json_each(p.value) AS m",
    ),
    "job_peak_metrics": ("t.job_uid", "job_peaks AS t, json_each(t.record -> 'metrics') AS m"),
    "job_peak_pods": (
        "t.job_uid, p.key AS pod",
        "job_peaks AS t, json_each(t.record -> 'pods') AS p, json_each(p.value -> 'metrics') AS m",
    ),
}
"""Key columns and sources by name. ``gpu`` is ``<node>/<index>``, ``process`` ``<node>/<index>/<pid>``."""


def _create_view(name: str) -> str:
    """The statement that makes one view: its key columns, ``metric``, ``max``, ``mean`` and ``at_ms``."""
    keys, sources = VIEWS[name]
    return (  # names of our own, nothing that came from outside
        f"CREATE VIEW {name} AS SELECT {keys}, m.key AS metric, "  # noqa: S608
        "CAST(m.value ->> 'max' AS DOUBLE PRECISION) AS max, "
        "CAST(m.value ->> 'mean' AS DOUBLE PRECISION) AS mean, "
        f"CAST(m.value ->> 'at_ms' AS BIGINT) AS at_ms FROM {sources}"
    )


def prepare(connection: Connection) -> None:
    """Make the schema on first use; check its version and that we may write. Inside a transaction."""
    if connection.dialect.name == "postgresql":  # two sinks may start at the same moment
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _ADVISORY_LOCK})
    if not inspect(connection).has_table(version_table.name):
        _create(connection)
    found = connection.scalar(select(version_table.c.version))
    if found != VERSION:
        raise DutycycleError(
            f"its schema has version {found}, this Dutycycle knows {VERSION}: "
            "use the Dutycycle that wrote it, or give another database"
        )
    for table in TABLES.values():  # touches no row, but the database checks our rights
        nothing = literal(1) == 0
        connection.execute(insert(table).from_select(list(table.c), select(table).where(nothing)))
        connection.execute(update(table).values(last_ms=table.c.last_ms).where(nothing))


def _create(connection: Connection) -> None:
    metadata.create_all(connection)
    for name in VIEWS:
        connection.execute(text(_create_view(name)))
    connection.execute(insert(version_table).values(version=VERSION))
