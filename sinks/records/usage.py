"""Reads the ledger: what was used in a time, by team, job, node or what else is asked for."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import nan
from typing import Any

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Text,
    case,
    cast,
    column,
    func,
    literal,
    literal_column,
    select,
    table,
    type_coerce,
)

from dutycycle.contract.units import unix_ms
from sinks.records.query import check_name, check_namespace, may_be_seen, reading
from sinks.records.rows import DAY_MS, POD_TABLE, PRICED, moment
from sinks.records.tables.columns import Document, UtcTime
from sinks.records.tables.schema import TABLES, rolled_up, usage_hours
from sinks.records.tables.views import DAY_OF_HOUR, SUMS, WEEK_OF_HOUR

NOBODY = "(nobody)"
"""What no pod had: idle GPUs, and CPU of the host itself."""
NONE = "(none)"
"""What belongs to a pod that has no such label, job or namespace, or whose name is not known."""
HIDDEN = "(another namespace)"
"""What belongs to pods whose names may not be seen."""
_usage = table(
    "usage",
    column("hour", UtcTime), column("labels", Document), column("pod_uid", Text), column("namespace", Text),
    column("pod", Text), column("job", Text), column("node", Text), column("gpu", Text),
    column("gpu_model", Text), *(column(name) for name in SUMS),
)  # fmt: skip
USAGE_SUMS = (*SUMS, "gpu_idle_cost")
"""What is added up. ``gpu_idle_cost``: of the cost of GPU hours the part that was known to be idle."""
_KNOWN_TIME = {
    "energy_j": ("energy_known_s",),
    "cost": tuple(PRICED),
    "gpu_idle_cost": ("gpu_priced_s",),
}
"""Names the columns of GPU time that a figure is of."""
_NEGLIGIBLE = 0.005
"""Of GPU time: a counter tells nothing of a GPU's first tick."""
_OF_PODS = {"namespace": "namespace", "job": "job", "pod": "pod"}
_OF_PLACES = {"node": "node", "gpu": "gpu", "model": "gpu_model"}
_SPANS = {"day": DAY_OF_HOUR, "week": WEEK_OF_HOUR}
_NEWEST = 5000
"""Pods whose labels are offered: of all of them it would be a scan of the table."""
GROUPS = ("hour", *_SPANS, *_OF_PODS, *_OF_PLACES)
"""What usage can be asked for by, beside the labels of pods."""


@dataclass(frozen=True, slots=True)
class LedgerMean:
    """Says how a mean follows from sums of the ledger. ``known``: the columns whose sum is the seconds in
    which ``amount`` was known; ``factor``: to the metric's unit."""

    amount: str
    known: tuple[str, ...]
    factor: float = 100.0

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the columns that it is made of, each once."""
        return tuple(dict.fromkeys((self.amount, *self.known)))

    def of(self, row: Mapping[str, Any]) -> float:
        """Return the mean of a row; NaN where one of its columns is not known, or there was no time."""
        if any(row[column] is None for column in self.columns):
            return nan
        seconds = sum(row[column] for column in self.known)
        return self.factor * (row[self.amount] / seconds) if seconds else nan


LEDGER_MEANS = {
    "gpu_util_pct": LedgerMean("gpu_busy_s", ("gpu_busy_s", "gpu_idle_s")),
    "power_w": LedgerMean("energy_known_j", ("energy_known_s",), factor=1.0),
    "sm_active_pct": LedgerMean("gpu_sm_s", ("gpu_sm_known_s",)),
    "tensor_active_pct": LedgerMean("gpu_tensor_s", ("gpu_tensor_known_s",)),
}
"""By metric."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """``by``: names of ``GROUPS``, or keys of labels. ``start_ms`` to ``end_ms``: hours that begin in it; of
    hours that became days, all of the day in which ``start_ms`` is. ``node`` and ``gpu``: of these alone.

    ``namespace``: of this one alone. ``namespaces``: those whose names may be seen, None for all; what others
    used is ``HIDDEN``.
    """

    by: tuple[str, ...]
    start_ms: int
    end_ms: int
    namespace: str | None = None
    node: str | None = None
    gpu: str | None = None
    namespaces: Collection[str] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns of ``by``: of a label that is called as a sum is, another, which
        no label has."""
        return tuple(f"label {name}" if name in USAGE_SUMS else name for name in self.by)


def usage(url: str, query: UsageQuery) -> list[Mapping[str, Any]]:
    """Return a row for each group, with ``query.columns`` and ``USAGE_SUMS``, by GPU-seconds.

    Raises ``DutycycleError`` for a namespace or label that nobody has, and when the database cannot be read.
    """
    with reading(url) as connection:
        check_namespace(connection, query.namespace, query.namespaces)
        # A name is one of GROUPS, or a label that a pod has.
        pods = TABLES[POD_TABLE]
        for name in query.by:
            has = pods.c.labels.op("->")(literal(name, Text)).is_not(None)
            of_a_pod = (
                select(pods.c.pod_uid).where(has, may_be_seen(pods.c.namespace, query.namespaces)).limit(1)
            )
            if name not in GROUPS and connection.scalar(of_a_pod) is None:
                there = [*GROUPS, *_labels(connection, query.namespaces)]
                check_name("group, nor a label kept by DUTYCYCLE_POD_LABELS", name, there, "--by")
        groups = [_group(name, connection.dialect.name, query.namespaces) for name in query.by]
        sums = [func.sum(_usage.c[name]).label(name) for name in SUMS]
        sums.append(func.sum(cost_of_idle(_usage, _usage.c.gpu_idle_s)).label("gpu_idle_cost"))
        named = [group.label(f"by_{at}") for at, group in enumerate(groups)]
        days_end, start_ms = connection.scalar(select(rolled_up.c.until)), query.start_ms
        if days_end is not None and start_ms < unix_ms(days_end):
            start_ms -= start_ms % DAY_MS
        begin, end = (literal(moment(ms), UtcTime) for ms in (start_ms, query.end_ms))
        statement = select(*named, *sums).where(_usage.c.hour >= begin, _usage.c.hour < end)
        for name in ("namespace", "node", "gpu"):
            if (wanted := getattr(query, name)) is not None:
                statement = statement.where(_usage.c[name] == wanted)
        sums_of_groups = connection.execute(statement.group_by(*named)).all()
    rows = [dict(zip((*query.columns, *USAGE_SUMS), row, strict=True)) for row in sums_of_groups]
    return sorted(rows, key=lambda row: _order(row, query.columns))


def hours_since(url: str) -> int | None:
    """Return from when on (Unix ms) usage is kept by the hour, and before by the day; None where all is kept
    by the hour. Raises as ``usage``."""
    with reading(url) as connection:
        until = connection.scalar(select(rolled_up.c.until))
    return None if until is None else unix_ms(until)


def ledger_until(url: str, now_ms: int) -> int | None:
    """Return up to when (Unix ms) the newest hour of the ledger is written, ``now_ms`` at most: the hours of
    a clock that is ahead hide no standstill of the rest. None where it has no hour. Raises as ``usage``."""
    newest = select(func.max(usage_hours.c.hour)).where(usage_hours.c.hour <= moment(now_ms))
    of_newest = usage_hours.c.hour == newest.scalar_subquery()
    with reading(url) as connection:
        until = connection.scalar(select(func.max(usage_hours.c.until)).where(of_newest))
    return None if until is None else min(unix_ms(until), now_ms)


def cost_of_idle(used: FromClause, idle_s: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return the part of the cost of a GPU's time that goes to ``idle_s`` of it."""
    return used.c.gpu_cost * idle_s / func.nullif(used.c.gpu_s, 0.0)


def is_part(row: Mapping[str, Any], name: str) -> bool:
    """Tell whether a figure of a row, one of ``_KNOWN_TIME``, is that of a part of its GPU time alone: of the
    rest no energy is known, or it has no price."""
    gpu_s = row["gpu_s"] or 0.0
    return any(0 < (row[of] or 0.0) < (1 - _NEGLIGIBLE) * gpu_s for of in _KNOWN_TIME[name])


def group_text(name: str, value: Any) -> str:
    """Return how people read the value of a group: a day, or the Monday of a week, without its hour, an hour
    without its seconds."""
    return value[:10] if name in _SPANS else f"{value[:16]}Z" if name == "hour" else str(value)


def _order(row: Mapping[str, Any], by: Sequence[str]) -> tuple[Any, ...]:
    """Return times in their order, then what used most."""
    times = [row[name] for name in by if name == "hour" or name in _SPANS]
    names = [str(row[name]) for name in by]
    return *times, -(row["gpu_s"] or 0.0), -(row["cpu_s"] or 0.0), *names


def _group(name: str, dialect: str, namespaces: Collection[str] | None) -> ColumnElement[Any]:
    if name == "hour":
        return _usage.c.hour
    if name in _SPANS:
        return type_coerce(literal_column(_SPANS[name][dialect]), UtcTime)
    if name in _OF_PLACES:
        return func.coalesce(_usage.c[_OF_PLACES[name]], NONE)
    value = _usage.c[_OF_PODS[name]] if name in _OF_PODS else _usage.c.labels.op("->>")(literal(name, Text))
    cases = [(_usage.c.pod_uid.is_(None), literal(NOBODY))]
    if namespaces is not None:
        # Of a pod without a name nobody knows whose it is.
        cases.append((func.coalesce(_usage.c.namespace, "").not_in(namespaces), literal(HIDDEN)))
    return case(*cases, else_=func.coalesce(value, NONE))


def label_names(url: str, namespaces: Collection[str] | None = None) -> list[str]:
    """Return the labels that the newest pods of the records have, of ``namespaces`` if that is not None,
    which usage can be asked for by. Raises as ``usage``."""
    with reading(url) as connection:
        return sorted(_labels(connection, namespaces))


def _labels(connection: Connection, namespaces: Collection[str] | None) -> set[str]:
    pods = TABLES[POD_TABLE]
    seen = select(cast(pods.c.labels, Text).label("labels")).where(may_be_seen(pods.c.namespace, namespaces))
    newest = seen.order_by(pods.c.last_at.desc()).limit(_NEWEST).subquery()
    documents = connection.scalars(select(newest.c.labels).distinct())
    return {key for document in documents for key in orjson.loads(document)}
