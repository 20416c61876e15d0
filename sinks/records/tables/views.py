"""Defines the views, which people read. They cost nothing to keep.

``pods``, ``jobs`` and ``usage`` have plain names and columns; ``usage`` has what was used with whose it was,
what was requested, and what it cost by the prices of its time. ``pod_peak_metrics`` and its like unfold the
JSON of a record into one row per metric.
"""

from dutycycle.contract.units import JOULES_PER_KWH
from sinks.records.rows import COSTS, FIGURES, NODE_FIGURES, PARTS, PRICED, USED

_OF_NODE = [f"{figure}_{metric}" for figure, metric in NODE_FIGURES]
_NODE_MOST = ", ".join(
    f"(SELECT max(p.{name}) FROM node_peaks AS p WHERE p.node = u.node) AS {name}"  # noqa: S608
    for name in _OF_NODE
    if name.startswith("max_")
)
_NODE_SUMS = ("gpu_s", "gpu_busy_s", "gpu_sm_s", "gpu_tensor_s", "gpu_working_s", "energy_j", "cpu_s", "cost")
_USED_ON_NODE = (
    f"(SELECT {{day}} AS day, node, {', '.join(f'sum({name}) AS {name}' for name in _NODE_SUMS)} "  # noqa: S608
    "FROM usage GROUP BY {day}, node)"
)
_FIGURES = ", ".join(f"p.{figure}_{metric}" for figure, metric in FIGURES)


def _price(what: str, model: str = "") -> str:
    """Return SQL for the price at the time of an hour ``h``: of the newest set until then, and of the longest
    name that the model contains."""
    fits = f"lower({model}) LIKE '%' || lower(x.gpu_model) || '%'" if model else "true"
    return (  # names of our own, nothing that came from outside
        f"(SELECT x.price FROM prices AS x WHERE x.what = '{what}' AND (x.gpu_model = '' OR {fits}) "  # noqa: S608
        f"AND x.since = (SELECT max(y.since) FROM prices AS y WHERE y.since <= h.hour) "
        "ORDER BY length(x.gpu_model) DESC LIMIT 1)"
    )


_REQUESTED_CPU = "h.pod_s * p.cpu_request"
_COSTS = (
    f"h.gpu_s / 3600 * {_price('gpu_hour', 'h.gpu_model')} AS gpu_cost, "
    f"CASE WHEN {_REQUESTED_CPU} > h.cpu_s THEN {_REQUESTED_CPU} ELSE h.cpu_s END / 3600 "
    f"* {_price('cpu_hour')} AS cpu_cost, "
    f"h.energy_j / {JOULES_PER_KWH} * {_price('kwh')} AS energy_cost"
)
_WHOSE = (
    "p.namespace, p.name AS pod, nullif(h.pod_uid, '') AS pod_uid, p.job_name AS job, p.job_kind, "
    "p.job_uid, p.labels, h.node, nullif(h.gpu, '') AS gpu, h.gpu_model, h.attribution"
)


def _if_known(of: str, seconds: str) -> str:
    """Return SQL for busy or idle time of rows ``of`` which something is known; null is not known, and 0 is
    idle."""
    return f"CASE WHEN {of}.gpu_known_s > 0 THEN {seconds} END"


_USED = (
    f"h.gpu_s, {_if_known('h', 'h.gpu_busy_s')} AS gpu_busy_s, "
    f"{_if_known('h', 'h.gpu_known_s - h.gpu_busy_s')} AS gpu_idle_s, "
    "h.gpu_s - h.gpu_known_s AS gpu_unknown_s, h.gpu_sm_s, h.gpu_sm_known_s, h.gpu_tensor_s, "
    "h.gpu_tensor_known_s, h.gpu_working_s, h.gpu_working_known_s, h.gpu_untouched_s, h.energy_j, "
    "h.pod_s * p.gpu_request AS gpu_requested_s, h.cpu_s, h.pod_s * p.cpu_request AS cpu_requested_s, "
    "h.mem_byte_s, h.pod_s * p.mem_request_bytes AS mem_requested_byte_s, h.pod_s"
)
_KEPT = ("node", "pod_uid", "gpu", "gpu_model", "attribution", *USED, *COSTS, *PARTS)
# What of an hour has a price follows from its cost outside of this: SQLite looks prices up at each mention.
_OF_HOURS = ", ".join(f"NULL AS {name}" if name in PRICED else name for name in _KEPT)
_OF_COST = ", ".join(
    f"coalesce(h.{name}, {PRICED[name]}) AS {name}" if name in PRICED else f"h.{name}"
    for name in (*COSTS, *PARTS)
)
_COST = (
    "CASE WHEN coalesce(h.gpu_cost, h.cpu_cost, h.energy_cost) IS NOT NULL "
    "THEN coalesce(h.gpu_cost, 0) + coalesce(h.cpu_cost, 0) + coalesce(h.energy_cost, 0) END"
)
_OF_JOB = "u.pod_uid IN (SELECT q.pod_uid FROM pod_peaks AS q WHERE q.job_uid = p.job_uid)"
_INSIGHT = (
    "i.kind AS does, i.kind_confidence, i.bottleneck, i.bottleneck_confidence, i.period_s, "
    "i.period_confidence, i.period_source, i.cycle_steps, i.steps_per_s, i.samples_per_s, "
    "i.mem_full_at, i.gpu_mem_full_at, i.idle_since, i.advice"
)
_USAGE = (
    f"(SELECT hour AS at, {_OF_HOURS} FROM usage_costs "  # noqa: S608
    f"UNION ALL SELECT day, {', '.join(_KEPT)} FROM usage_days)"
)


_OF_LIFE = (
    "gpu_s", "gpu_busy_s", "gpu_sm_s", "gpu_tensor_s", "gpu_working_s", "gpu_untouched_s", "energy_j",
    "cpu_s",
)  # fmt: skip


def _life(whose: str) -> str:
    """Sums over all the usage that is kept, of those of the rows that are asked for."""
    sums = {name: f"u.{name}" for name in _OF_LIFE}
    sums["gpu_busy_s"] = _if_known("u", "u.gpu_busy_s")
    costs = [
        f"(SELECT sum({value}) FROM {_USAGE} AS u WHERE {whose}) AS {name}"  # noqa: S608
        for name, value in sums.items()
    ]
    cost = f"(SELECT sum({_COST.replace('h.', 'u.')}) FROM {_USAGE} AS u WHERE {whose}) AS cost"  # noqa: S608
    return ", ".join((*costs, cost))


SUMS = (
    "gpu_s", "gpu_busy_s", "gpu_idle_s", "gpu_unknown_s", "gpu_sm_s", "gpu_sm_known_s", "gpu_tensor_s",
    "gpu_tensor_known_s", "gpu_working_s", "gpu_working_known_s", "gpu_untouched_s", "energy_j",
    "gpu_requested_s", "cpu_s",
    "cpu_requested_s", "mem_byte_s", "mem_requested_byte_s", "pod_s", *COSTS, *PARTS, "cost",
)  # fmt: skip
"""The columns of ``usage`` that can be added up."""
_NAMES = (
    "namespace", "pod", "pod_uid", "job", "job_kind", "job_uid", "labels", "node", "gpu", "gpu_model",
    "attribution",
)  # fmt: skip
VIEWS = {
    "usage_costs": (
        f"c.*, {', '.join(f'{part} AS {name}' for name, part in PARTS.items())}",
        f"(SELECT h.*, {_COSTS} FROM usage_hours AS h "  # noqa: S608
        "LEFT JOIN pod_peaks AS p USING (pod_uid)) AS c",
    ),
    "pods": (
        "p.namespace, p.name AS pod, p.pod_uid, p.node, p.job_name AS job, p.job_kind, p.job_uid, p.labels, "
        "p.phase, p.started_at, p.first_at, p.last_at, p.final AS ended, p.gpus, p.gpu_request, "
        f"p.cpu_request, p.mem_request_bytes, {_life('u.pod_uid = p.pod_uid')}, {_INSIGHT}, {_FIGURES}",
        "pod_peaks AS p LEFT JOIN insights AS i ON i.subject = 'pod/' || p.pod_uid",
    ),
    "jobs": (
        "p.namespace, p.name AS job, p.kind AS job_kind, p.job_uid, p.first_at, p.last_at, p.final AS ended, "
        f"p.pods, p.gpus, {_life(_OF_JOB)}, {_INSIGHT}, {_FIGURES}",
        "job_peaks AS p LEFT JOIN insights AS i ON i.subject = 'job/' || p.job_uid",
    ),
    "nodes": (
        "u.node, count(DISTINCT nullif(u.gpu, '')) AS gpus, max(u.gpu_model) AS gpu_model, "
        "min(u.at) AS first_at, max(u.at) AS last_at, sum(u.gpu_s) AS gpu_s, "
        f"sum({_if_known('u', 'u.gpu_busy_s')}) AS gpu_busy_s, "
        f"sum({_if_known('u', 'u.gpu_known_s - u.gpu_busy_s')}) AS gpu_idle_s, "
        "sum(u.gpu_sm_s) AS gpu_sm_s, sum(u.gpu_tensor_s) AS gpu_tensor_s, "
        "sum(u.gpu_working_s) AS gpu_working_s, "
        "sum(CASE WHEN u.pod_uid = '' THEN u.gpu_s END) AS gpu_free_s, sum(u.energy_j) AS energy_j, "
        f"sum(u.cpu_s) AS cpu_s, sum({_COST.replace('h.', 'u.')}) AS cost, {_NODE_MOST}",
        f"{_USAGE} AS u GROUP BY u.node",
    ),
    "usage": (
        f"h.at AS hour, {_WHOSE}, {_USED}, {_OF_COST}, {_COST} AS cost",
        f"{_USAGE} AS h "
        "LEFT JOIN pod_peaks AS p ON p.pod_uid = h.pod_uid",
    ),
    "usage_by_day": (
        f"day, {', '.join(_NAMES)}, {', '.join(f'sum({name}) AS {name}' for name in SUMS)}",
        f"(SELECT {{day}} AS day, {', '.join((*_NAMES, *SUMS))} FROM usage) AS every "  # noqa: S608
        f"GROUP BY day, {', '.join(_NAMES)}",
    ),
    "node_days": (
        "p.day, p.node, max(p.gpus) AS gpus, min(p.first_at) AS first_at, max(p.last_at) AS last_at, "
        f"{', '.join(f'max(u.{name}) AS {name}' for name in _NODE_SUMS)}, "
        f"{', '.join(f'max(p.{name}) AS {name}' for name in _OF_NODE)}",
        f"node_peaks AS p LEFT JOIN {_USED_ON_NODE} AS u ON u.day = p.day AND u.node = p.node "
        "GROUP BY p.day, p.node",
    ),
    "pod_peak_metrics": ("t.pod_uid, {peak}", "pod_peaks AS t, {each}(t.record -> 'metrics') AS m"),
    "pod_peak_gpus": (
        "t.pod_uid, g.key AS gpu, {peak}",
        "pod_peaks AS t, {each}(t.record -> 'gpus') AS g, {each}(g.value) AS m",
    ),
    "pod_peak_processes": (
        "t.pod_uid, p.key AS process, {peak}",
        "pod_peaks AS t, {each}(t.record -> 'processes') AS p, {each}(p.value) AS m",
    ),
    "job_peak_metrics": ("t.job_uid, {peak}", "job_peaks AS t, {each}(t.record -> 'metrics') AS m"),
    "job_peak_pods": (
        "t.job_uid, p.key AS pod, {peak}",
        "job_peaks AS t, {each}(t.record -> 'pods') AS p, {each}(p.value -> 'metrics') AS m",
    ),
}  # fmt: skip
"""Columns and sources by name. In the last five, ``gpu`` is ``<node>/<index>``, ``process``
``<node>/<index>/<pid>``."""
_PEAK = (
    "m.key AS metric, CAST(m.value ->> 'max' AS DOUBLE PRECISION) AS max, "
    "CAST(m.value ->> 'mean' AS DOUBLE PRECISION) AS mean, "
    "CAST(m.value ->> 'p95' AS DOUBLE PRECISION) AS p95, {at} AS at"
)
DAY_OF_HOUR = {
    "postgresql": "date_trunc('day', hour, 'UTC')", "sqlite": "substr(hour, 1, 10) || 'T00:00:00.000Z'",
}  # fmt: skip
"""The beginning of the day of ``hour``, by dialect."""
WEEK_OF_HOUR = {
    "postgresql": "date_trunc('week', hour, 'UTC')",
    "sqlite": "date(hour, '-6 days', 'weekday 1') || 'T00:00:00.000Z'",
}
"""The beginning of the Monday before ``hour``, or of it, by dialect."""
_DIALECTS = {
    "postgresql": {
        "each": "jsonb_each",
        "peak": _PEAK.format(at="to_timestamp(CAST(m.value ->> 'at_ms' AS BIGINT) / 1000.0)"),
    },
    "sqlite": {
        "each": "json_each",
        "peak": _PEAK.format(
            at="strftime('%Y-%m-%dT%H:%M:%fZ', CAST(m.value ->> 'at_ms' AS BIGINT) / 1000.0, 'unixepoch')"
        ),
    },
}  # fmt: skip


def create_view(name: str, dialect: str) -> str:
    """Return the statement that makes one view."""
    words = _DIALECTS[dialect] | {"day": DAY_OF_HOUR[dialect]}
    columns, sources = (part.format(**words) for part in VIEWS[name])
    # A colon would be a parameter: names of our own, nothing that came from outside.
    return f"CREATE VIEW {name} AS SELECT {columns} FROM {sources}".replace(":", "\\:")  # noqa: S608
