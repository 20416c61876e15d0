"""Reads what jobs of the past, and those that run, had and wasted: a bounded number of them, by one query.

All names that are asked for are parameters. What was used is the ledger's of the time that is asked for;
peaks and verdicts are those of the whole life of a job.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    Text,
    and_,
    case,
    cast,
    exists,
    func,
    literal,
    or_,
    select,
    union_all,
)

from dutycycle.contract.codec import DecodeError, decode
from dutycycle.contract.records.derived import PodPeaks
from dutycycle.contract.units import END_OF_TIME_MS
from sinks.records.query import may_be_seen, reading
from sinks.records.rows import (
    COSTS,
    DAY_MS,
    EVENT_TABLE,
    INSIGHT_TABLE,
    JOB_TABLE,
    PARTS,
    POD_TABLE,
    PRICED,
    USED,
    moment,
)
from sinks.records.tables.columns import UtcTime
from sinks.records.tables.schema import TABLES, usage_costs, usage_days, usage_hours
from sinks.records.usage import cost_of_idle

ORDERS = ("waste", "cost", "use", "newest", "longest", "memory")
"""What jobs can be sorted by: ``waste``: GPU time without a kernel, most first; ``cost``: GPU time in all;
``use``: mean GPU use, least first; ``longest`` and ``memory``: most first."""
MOST_JOBS = 500
MOST_ENDED = 2000
_MOST_EARLIER = 20
_RUN_ON_MS = 3 * 86_400_000
"""Longer than topics keep samples. An index has pods by their end."""
_SECONDS = ("gpu_s", "gpu_known_s", "gpu_busy_s", "gpu_untouched_s", "energy_j")
GPU_TIME = (
    "gpu_s", "gpu_busy_s", "gpu_idle_s", "gpu_working_s", "gpu_working_known_s", "gpu_untouched_s",
    "gpu_sm_s", "gpu_sm_known_s", "gpu_tensor_s", "gpu_tensor_known_s", "energy_j", "energy_known_s",
    "energy_known_j",
)  # fmt: skip
"""What is told of a job's time on a GPU; busy and idle of what is known."""
_jobs, _pods, _insights = (TABLES[name] for name in (JOB_TABLE, POD_TABLE, INSIGHT_TABLE))
_SUFFIX = re.compile(r"[-.](?:(?=[a-z]*\d)[a-z0-9]{5}|[0-9][0-9.:_-]*)$")
"""What controllers and people put behind a job's name to tell its runs apart."""
_Span = tuple[int, int]
"""A beginning and an end that is no part of it, in Unix milliseconds."""
_ALWAYS = 0, END_OF_TIME_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class JobQuery:
    """Says which jobs are wanted: those seen since ``since_ms`` and before ``until_ms``; of them ``most``, by
    one of ``ORDERS``.

    ``namespaces``: those that may be seen, None for all; ``namespace``: of them only this. ``kind``: of the
    owner, such as PyTorchJob. ``words``: a part of the name. ``label``: a key and value that one of its pods
    has. ``ended``: None for both.
    """

    since_ms: int
    until_ms: int = END_OF_TIME_MS
    order: str = "waste"
    most: int = 200
    namespaces: Collection[str] | None = None
    namespace: str | None = None
    kind: str | None = None
    words: str = ""
    label: tuple[str, str] | None = None
    ended: bool | None = None


@dataclass(frozen=True, slots=True)
class JobList:
    """Holds a page of jobs. ``rows``: the jobs; ``count``: how many there are like that; ``namespaces`` and
    ``kinds``: of all jobs of that time that may be seen."""

    rows: Sequence[Mapping[str, Any]]
    count: int
    namespaces: list[str]
    kinds: list[str]


def read_jobs(url: str, query: JobQuery) -> JobList:
    """Read the jobs with what they used. Raises ``DutycycleError`` when the database cannot be read."""
    of_time = _of_time(query)
    wanted = and_(of_time, *_conditions(query))
    with reading(url) as connection:
        rows = _read(connection, jobs_statement(query), (query.since_ms, query.until_ms))
        count = connection.scalar(select(func.count()).select_from(_jobs).where(wanted)) or 0
        names = [
            sorted(filter(None, connection.scalars(select(_jobs.c[name]).where(of_time).distinct())))
            for name in ("namespace", "kind")
        ]
    return JobList(rows, count, *names)


def jobs_statement(query: JobQuery) -> Select[Any]:
    """Make the query: what was used in that time is added up once, and joined with the jobs."""
    used = _used((query.since_ms, query.until_ms))
    statement = _of_jobs(used).where(_of_time(query), *_conditions(query))
    idle_s = used.c.gpu_known_s - used.c.gpu_busy_s
    orders: dict[str, ColumnElement[Any]] = {
        "waste": idle_s.desc().nulls_last(),
        "cost": used.c.gpu_s.desc().nulls_last(),
        "use": _jobs.c.mean_gpu_util_pct.asc().nulls_last(),
        "memory": _jobs.c.max_gpu_mem_used_bytes.desc().nulls_last(),
        "newest": _jobs.c.last_at.desc(),
        "longest": _jobs.c.first_at.asc(),
    }
    order = [orders[query.order], _jobs.c.last_at.desc(), _jobs.c.job_uid]
    return statement.order_by(*order).limit(min(query.most, MOST_JOBS))


@dataclass(frozen=True, slots=True)
class JobRecord:
    """Holds one job: its row as of ``read_jobs``, over all of its life; its ``pods``, what happened to its
    GPUs, and the runs before it that are of the same kind and name."""

    row: Mapping[str, Any]
    pods: Sequence[Mapping[str, Any]]
    pod_count: int
    events: Sequence[Mapping[str, Any]]
    earlier: Sequence[Mapping[str, Any]]


def read_job(url: str, uid: str, namespaces: Collection[str] | None = None) -> JobRecord | None:
    """Read a job by its uid; None where there is none that may be seen. Raises as ``read_jobs``."""
    used = _used(_ALWAYS, _pods.c.job_uid == uid)
    with reading(url) as connection:
        of_uid = _of_jobs(used).where(_jobs.c.job_uid == uid, may_be_seen(_jobs.c.namespace, namespaces))
        rows = _read(connection, of_uid, _ALWAYS)
        if not rows:
            return None
        row = rows[0]
        columns = [
            _pods.c[name]
            for name in (
                "pod_uid", "namespace", "name", "node", "phase", "gpus", "gpu_request", "cpu_request",
                "mem_request_bytes", "started_at", "first_at", "last_at", "final", "mean_gpu_util_pct",
                "max_gpu_util_pct", "max_gpu_mem_used_bytes", "max_cpu_util_pct", "max_mem_used_bytes",
            )
        ]  # fmt: skip
        of_job = and_(_pods.c.job_uid == uid, may_be_seen(_pods.c.namespace, namespaces))
        pods = select(*columns).where(of_job).order_by(_pods.c.first_at, _pods.c.name).limit(MOST_JOBS)
        count = connection.scalar(select(func.count()).select_from(_pods).where(of_job)) or 0
        happened = TABLES[EVENT_TABLE]
        events = select(happened).where(happened.c.job_uid == uid).order_by(happened.c.at.desc()).limit(100)
        return JobRecord(
            row,
            _mappings(connection, pods),
            count,
            _mappings(connection, events),
            _read_earlier(connection, row, namespaces),
        )


def read_gpu_time(url: str, uid: str) -> list[dict[str, Any]]:
    """Read what a job had of each GPU, a row for each hour, or day that hours became: ``at``, ``node``,
    ``gpu``, ``gpu_model`` and the sums ``GPU_TIME``; by the ledger's index of pods alone. Raises as
    ``read_jobs``."""
    of_pods = select(_pods.c.pod_uid).where(_pods.c.job_uid == uid)
    kept = [name for name in GPU_TIME if name in (*USED, *PARTS)]
    parts = [
        select(
            ledger.c[at].label("at"), ledger.c.node, ledger.c.gpu, ledger.c.gpu_model, ledger.c.gpu_known_s,
            *(ledger.c[name] for name in kept),
        ).where(ledger.c.pod_uid.in_(of_pods), ledger.c.gpu != "")
        for ledger, at in ((usage_costs, "hour"), (usage_days, "day"))
    ]  # fmt: skip
    ledger = union_all(*parts).subquery("ledger").c
    is_known = ledger.gpu_known_s > 0
    figures = {name: ledger[name] for name in kept} | {
        "gpu_busy_s": case((is_known, ledger.gpu_busy_s)),
        "gpu_idle_s": case((is_known, ledger.gpu_known_s - ledger.gpu_busy_s)),
    }
    statement = select(
        ledger.at, ledger.node, ledger.gpu, func.max(ledger.gpu_model).label("gpu_model"),
        *(func.sum(figures[name]).label(name) for name in GPU_TIME),
    ).group_by(ledger.at, ledger.node, ledger.gpu)  # fmt: skip
    with reading(url) as connection:
        return _mappings(connection, statement)


def read_pods(url: str, uid: str, namespaces: Collection[str] | None = None) -> list[PodPeaks]:
    """Read the peak records of the first pods of a job, without those that this Dutycycle cannot read. Raises
    as ``read_jobs``."""
    with reading(url) as connection:
        return _decoded(connection, _records_of_job(uid, namespaces))[0]


def read_neighbors(
    url: str, nodes: Collection[str], span: tuple[int, int], namespaces: Collection[str] | None = None
) -> list[PodPeaks]:
    """Read the peak records of pods that were on ``nodes`` in a time (Unix ms), the first that ended first;
    without those that ran on for days, and that this Dutycycle cannot read. Raises as ``read_jobs``."""
    start_ms, end_ms = span
    statement = (
        select(cast(_pods.c.record, Text))
        .where(
            may_be_seen(_pods.c.namespace, namespaces),
            _during(_pods.c.last_at, (start_ms, end_ms + _RUN_ON_MS)),
            _pods.c.first_at < literal(moment(end_ms), UtcTime),
            _pods.c.node.in_(nodes),
        )
        .order_by(_pods.c.last_at)
        .limit(MOST_JOBS)
    )
    with reading(url) as connection:
        return _decoded(connection, statement)[0]


def _records_of_job(uid: str, namespaces: Collection[str] | None) -> Select[Any]:
    records = select(cast(_pods.c.record, Text)).where(may_be_seen(_pods.c.namespace, namespaces))
    of_job = records.where(_pods.c.job_uid == uid)
    return of_job.order_by(_pods.c.first_at, _pods.c.name).limit(MOST_JOBS)


def _decoded(connection: Connection, statement: Select[Any]) -> tuple[list[PodPeaks], int]:
    """Return the records, and how many cannot be read."""
    pods: list[PodPeaks] = []
    unreadable = 0
    for record in connection.scalars(statement):
        try:
            pods.append(decode(PodPeaks, record.encode(), "pod-peaks"))
        except DecodeError:
            unreadable += 1
    return pods, unreadable


@dataclass(slots=True)
class PodsAndEnded:
    """Holds peak records of a job's ``pods``, and of pods that had ``ended`` when it began; ``unreadable``:
    how many records this Dutycycle cannot read."""

    pods: list[PodPeaks]
    ended: list[PodPeaks]
    unreadable: int = 0


def read_with_ended(
    url: str, job: Mapping[str, Any], namespaces: Collection[str] | None = None
) -> PodsAndEnded:
    """Read the first pods of a job, its row as in ``JobRecord``, and pods of its namespace that had ended
    when it began.

    Of these at most ``MOST_ENDED``: those first whose job is called like this one, then the newest. Raises as
    ``read_jobs``.
    """
    stem = _SUFFIX.sub("", job["name"])
    alike = _pods.c.job_name.startswith(stem, autoescape=True)
    ended = (
        select(cast(_pods.c.record, Text))
        .where(
            may_be_seen(_pods.c.namespace, namespaces),
            _pods.c.namespace == job["namespace"] if job["namespace"] else _pods.c.namespace.is_(None),
            _pods.c.final,
            _pods.c.last_at <= job["first_at"],
            _pods.c.job_uid.is_distinct_from(job["job_uid"]),
        )
        .order_by(_pods.c.last_at.desc())
    )
    with reading(url) as connection:
        pods, unreadable = _decoded(connection, _records_of_job(job["job_uid"], namespaces))
        others: list[PodPeaks] = []
        room = MOST_ENDED
        # One question by name, one by time: each has its index, and both in one order sort the namespace.
        for of in (alike, or_(_pods.c.job_name.is_(None), ~alike)):
            peaks, not_read = _decoded(connection, ended.where(of).limit(room))
            others += peaks
            unreadable += not_read
            room -= len(peaks) + not_read
            if room <= 0:
                break
    return PodsAndEnded(pods, others, unreadable)


def _read_earlier(
    connection: Connection, row: Mapping[str, Any], namespaces: Collection[str] | None
) -> list[Mapping[str, Any]]:
    """Read the newest runs before this one: of its name first, then of one that differs in the suffix."""
    name: str = row["name"]
    stem = _SUFFIX.sub("", name)
    before = (
        select(_jobs.c.job_uid, _jobs.c.name)
        .where(
            _jobs.c.namespace == row["namespace"] if row["namespace"] else _jobs.c.namespace.is_(None),
            _jobs.c.kind == row["kind"],
            _jobs.c.job_uid != row["job_uid"],
            _jobs.c.first_at < row["first_at"],
            may_be_seen(_jobs.c.namespace, namespaces),
        )
        .order_by(_jobs.c.last_at.desc())
    )
    begins_alike = _jobs.c.name.startswith(stem + name[len(stem) : len(stem) + 1], autoescape=True)
    alike: list[str] = []
    for of in (_jobs.c.name == name, begins_alike & (_jobs.c.name != name)):  # each by its own index
        newest = connection.execute(before.where(of).limit(100))
        alike += [uid for uid, other in newest if _SUFFIX.sub("", other) == stem]
        if len(alike) >= _MOST_EARLIER:
            break
    uids = alike[:_MOST_EARLIER]
    if not uids:
        return []
    statement = _of_jobs(_used(_ALWAYS, _pods.c.job_uid.in_(uids))).where(_jobs.c.job_uid.in_(uids))
    rows = {earlier["job_uid"]: earlier for earlier in _read(connection, statement, _ALWAYS)}
    return [rows[uid] for uid in uids if uid in rows]


def _used(span: _Span, of: ColumnElement[bool] | None = None) -> FromClause:
    """Add up what the pods of each job used in a time, of hours and of the days that they become."""
    parts = [
        select(ledger.c.pod_uid, *(ledger.c[name] for name in _SECONDS)).where(_during(ledger.c[at], of_time))
        for ledger, at, of_time in ((usage_hours, "hour", span), (usage_days, "day", _days_of(span)))
    ]
    if of is not None:  # the ledger's index by pod is used, and not its time
        of_pods = select(_pods.c.pod_uid).where(of)
        parts = [part.where(part.selected_columns.pod_uid.in_(of_pods)) for part in parts]
    ledger = union_all(*parts).subquery("ledger")
    known = case((ledger.c.gpu_known_s > 0, ledger.c.gpu_busy_s))
    sums = [func.sum(known if name == "gpu_busy_s" else ledger.c[name]).label(name) for name in _SECONDS]
    statement = select(_pods.c.job_uid, *sums).join(ledger, ledger.c.pod_uid == _pods.c.pod_uid)
    return statement.where(_pods.c.job_uid.is_not(None)).group_by(_pods.c.job_uid).subquery("used")


def _of_jobs(used: FromClause) -> Select[Any]:
    insights = [
        _insights.c[name]
        for name in ("bottleneck", "bottleneck_confidence", "period_s", "steps_per_s", "advice", "idle_since")
    ]
    jobs = [
        _jobs.c[name]
        for name in (
            "job_uid", "namespace", "kind", "name", "first_at", "last_at", "final", "pods", "gpus",
            "mean_gpu_util_pct", "max_gpu_util_pct", "max_gpu_mem_used_bytes", "max_mem_used_bytes",
        )
    ]  # fmt: skip
    sums = [used.c[name] for name in _SECONDS]
    does = [
        _insights.c.kind.label("does"), _insights.c.kind_confidence.label("sure"),
        cast(_insights.c.evidence, Text).label("evidence"), _insights.c.since, _insights.c.at,
    ]  # fmt: skip
    joined = _jobs.outerjoin(used, used.c.job_uid == _jobs.c.job_uid)
    joined = joined.outerjoin(_insights, _insights.c.subject == literal("job/", Text) + _jobs.c.job_uid)
    return select(*jobs, *sums, *does, *insights).select_from(joined)


def _during(at: ColumnElement[Any], span: _Span) -> ColumnElement[bool]:
    began, ended = (literal(moment(ms), UtcTime) for ms in span)
    return and_(at >= began, at < ended)


def _days_of(span: _Span) -> _Span:
    """Return the span from the beginning of its first day on: of a day nothing tells its hours apart."""
    return span[0] - span[0] % DAY_MS, span[1]


def _of_time(query: JobQuery) -> ColumnElement[bool]:
    """Tell of jobs whether they were seen in that time and may be seen."""
    return and_(
        _jobs.c.last_at >= literal(moment(query.since_ms), UtcTime),
        _jobs.c.first_at < literal(moment(query.until_ms), UtcTime),
        may_be_seen(_jobs.c.namespace, query.namespaces),
    )


def _conditions(query: JobQuery) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if query.namespace:
        conditions.append(_jobs.c.namespace == query.namespace)
    if query.kind:
        conditions.append(_jobs.c.kind == query.kind)
    if query.words:
        conditions.append(_jobs.c.name.icontains(query.words, autoescape=True))
    if query.ended is not None:
        conditions.append(_jobs.c.final.is_(query.ended))
    if query.label is not None:
        key, value = query.label
        labelled = _pods.c.labels.op("->>")(literal(key, Text)) == value
        conditions.append(exists().where(_pods.c.job_uid == _jobs.c.job_uid, labelled))
    return conditions


def _read(connection: Connection, statement: Select[Any], span: _Span) -> list[Mapping[str, Any]]:
    """Read rows of jobs, and what these cost in a time by the prices of each hour, with what ``is_part`` asks
    for."""
    rows = _mappings(connection, statement)
    uids = [row["job_uid"] for row in rows]
    unpriced: dict[str, Any] = dict.fromkeys(("cost", "gpu_idle_cost", *PRICED))
    costs: dict[str, dict[str, Any]] = {}
    ledgers = (usage_costs, "hour", span), (usage_days, "day", _days_of(span))
    for ledger, at, of_time in ledgers if uids else ():
        priced = [ledger.c[name] for name in COSTS]
        cost = case(
            (
                func.coalesce(*priced).is_not(None),
                sum((func.coalesce(part, 0.0) for part in priced), literal(0.0)),
            )
        )
        idle_s = case((ledger.c.gpu_known_s > 0, ledger.c.gpu_known_s - ledger.c.gpu_busy_s))
        idle_cost = cost_of_idle(ledger, idle_s)
        of_jobs = (
            select(
                _pods.c.job_uid, func.sum(cost).label("cost"), func.sum(idle_cost).label("gpu_idle_cost"),
                *(func.sum(ledger.c[name]).label(name) for name in PRICED),
            )
            .select_from(_pods)
            .join(ledger, ledger.c.pod_uid == _pods.c.pod_uid)
            .where(_pods.c.job_uid.in_(uids), _during(ledger.c[at], of_time))
            .group_by(_pods.c.job_uid)
        )  # fmt: skip
        for priced_row in connection.execute(of_jobs).mappings():
            added = costs.setdefault(priced_row["job_uid"], dict(unpriced))
            for name, before in added.items():
                if priced_row[name] is not None:
                    added[name] = (before or 0.0) + priced_row[name]
    return [row | costs.get(row["job_uid"], unpriced) for row in rows]


def _mappings(connection: Connection, statement: Select[Any]) -> list[dict[str, Any]]:
    return [dict(row) for row in connection.execute(statement).mappings()]
