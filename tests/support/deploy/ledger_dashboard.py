"""The dashboard of the ledger: SQL on PostgreSQL, for the time that Grafana shows."""

from typing import Any, NamedTuple

from tests.support.deploy.source_variable import source_variable

_SOURCE = {"type": "grafana-postgresql-datasource", "uid": "${records}"}
_WHEN = "hour >= to_timestamp($__unixEpochFrom()) AND hour <= to_timestamp($__unixEpochTo())"
_PODS = f"{_WHEN} AND pod_uid IS NOT NULL"
_WHO = "coalesce(namespace, '') AS \"Namespace\""
_HOURS = (
    'sum(gpu_s) / 3600 AS "GPU hours", sum(gpu_busy_s) / 3600 AS "Busy", sum(gpu_idle_s) / 3600 AS "Idle", '
    'sum(gpu_busy_s) / nullif(sum(gpu_busy_s) + sum(gpu_idle_s), 0) AS "Busy share", '
    'sum(energy_j) / 3600000 AS "kWh", sum(cpu_s) / 3600 AS "CPU hours", '
    'sum(cpu_requested_s) / 3600 AS "CPU requested", sum(cost) AS "Cost"'
)
Json = dict[str, Any]


class _Panel(NamedTuple):
    """``kind``: stat, timeseries or table. ``units``: by column."""

    title: str
    description: str
    kind: str
    sql: str
    width: int
    unit: str = "none"
    units: tuple[tuple[str, str], ...] = (("Busy share", "percentunit"),)


def _stat(title: str, description: str, figure: str, where: str, unit: str = "none") -> _Panel:
    return _Panel(title, description, "stat", f"SELECT {figure} FROM usage WHERE {where}", 4, unit, ())  # noqa: S608


def _table(title: str, description: str, group: str, width: int = 12) -> _Panel:
    numbers = ", ".join(str(at + 1) for at in range(group.count(" AS ")))
    sql = f"SELECT {group}, {_HOURS} FROM usage WHERE {_PODS} GROUP BY {numbers}"  # noqa: S608
    return _Panel(title, description, "table", f'{sql} ORDER BY "GPU hours" DESC NULLS LAST LIMIT 100', width)


_BY_HOUR = f"""
SELECT hour AS time, sum(gpu_busy_s) / 3600 AS "Busy",
       sum(gpu_idle_s) FILTER (WHERE pod_uid IS NOT NULL) / 3600 AS "Idle in pods",
       sum(gpu_idle_s) FILTER (WHERE pod_uid IS NULL) / 3600 AS "Free",
       sum(gpu_unknown_s) / 3600 AS "Not known"
FROM usage WHERE {_WHEN} GROUP BY 1 ORDER BY 1"""  # noqa: S608
_COST_BY_HOUR = f"""
SELECT hour AS time, coalesce(namespace, '') AS metric, sum(cost) AS cost
FROM usage WHERE {_PODS} GROUP BY 1, 2 ORDER BY 1"""  # noqa: S608
_IDLE_NOW = """
SELECT coalesce(namespace, '') AS "Namespace", pod AS "Pod", node AS "Node", gpus AS "GPUs",
       idle_since AS "Since", bottleneck AS "Bottleneck", advice AS "Advice"
FROM pods
WHERE NOT ended AND does = 'idle' AND gpus > 0 AND last_at >= to_timestamp($__unixEpochFrom())
ORDER BY idle_since LIMIT 100"""
_TEAM = "coalesce(labels ->> 'team', '(none)') AS \"Team\""
_JOB = "coalesce(job, pod, '') AS \"Job\""
_NODE = 'node AS "Node", coalesce(gpu_model, \'\') AS "Model"'
_BUSY = 'sum(gpu_busy_s) / nullif(sum(gpu_busy_s) + sum(gpu_idle_s), 0) AS "Busy"'
PANELS = (
    _stat("GPU hours", "That pods had.", 'sum(gpu_s) / 3600 AS "GPU hours"', _PODS),
    _stat("Idle in pods", "Of them, no kernel ran.", 'sum(gpu_idle_s) / 3600 AS "Idle"', _PODS),
    _stat("Free", "That no pod had.", 'sum(gpu_s) / 3600 AS "Free"', f"{_WHEN} AND pod_uid IS NULL"),
    _stat("Busy", "Of the GPU time of pods.", _BUSY, _PODS, "percentunit"),
    _stat("Energy", "Of all GPUs.", 'sum(energy_j) / 3600000 AS "kWh"', _WHEN, "kwatth"),
    _stat("Cost", "Of pods, by the prices of the time.", 'sum(cost) AS "Cost"', _PODS),
    _Panel("GPU hours by hour", "Busy, idle in pods, and free: together all that there are.", "timeseries",
           _BY_HOUR, 12, units=()),
    _Panel("Cost by hour and namespace", "", "timeseries", _COST_BY_HOUR, 12, units=()),
    _table("By namespace", "GPU hours, what was idle, and what it cost.", _WHO),
    _table("By team", "By the label team, if DUTYCYCLE_POD_LABELS keeps it.", _TEAM),
    _table("By job", "The hundred with most GPU hours.", f"{_WHO}, {_JOB}", 24),
    _table("By node and GPU model", "What pods had on it.", _NODE),
    _Panel("Held and idle now", "Pods that have GPUs and use none of them.", "table", _IDLE_NOW, 12,
           units=()),
)  # fmt: skip


def dashboard() -> Json:
    """The whole dashboard."""
    panels: list[Json] = []
    x = y = height = 0
    for number, one in enumerate(PANELS, 1):
        if x + one.width > 24:
            x, y, height = 0, y + height, 0
        high = 4 if one.kind == "stat" else 9
        panels.append(_panel(number, one, {"x": x, "y": y, "w": one.width, "h": high}))
        x, height = x + one.width, max(height, high)
    return {
        "uid": "dutycycle-ledger", "title": "Dutycycle: ledger", "tags": ["dutycycle"], "timezone": "utc",
        "schemaVersion": 41, "editable": False, "refresh": "5m", "time": {"from": "now-7d", "to": "now"},
        "templating": {"list": [source_variable("records", "Records", _SOURCE["type"])]},
        "annotations": {"list": []}, "panels": panels,
    }  # fmt: skip


def _panel(number: int, one: _Panel, place: Json) -> Json:
    form = "time_series" if one.kind == "timeseries" else "table"
    target = {"refId": "A", "datasource": _SOURCE, "format": form, "rawQuery": True, "rawSql": one.sql}
    custom = {"stacking": {"mode": "normal"}, "fillOpacity": 30} if one.kind == "timeseries" else {}
    return {
        "id": number, "title": one.title, "description": one.description, "type": one.kind, "gridPos": place,
        "datasource": _SOURCE, "targets": [target],
        "fieldConfig": {
            "defaults": {"unit": one.unit, "decimals": 2} | ({"custom": custom} if custom else {}),
            "overrides": [
                {"matcher": {"id": "byName", "options": name}, "properties": [{"id": "unit", "value": unit}]}
                for name, unit in one.units
            ],
        },
        "options": {},
    }  # fmt: skip
