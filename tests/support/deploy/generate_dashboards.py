"""``python -m tests.support.deploy.generate_dashboards``: writes the dashboards that are made, and not drawn.

A panel is a title, what it shows, and a query for each line or column. The tests run each of them.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dutycycle.contract.catalogue import GPU_ROWS
from tests.support.deploy import ledger_dashboard
from tests.support.deploy.manifests import ROOT
from tests.support.deploy.source_variable import source_variable

FOLDER = ROOT / "deploy/helm/dutycycle/files/dashboards"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH = 24
Json = dict[str, Any]


class Query(NamedTuple):
    """A PromQL expression, and what its lines are called."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    """``kind``: timeseries, stat or table. ``link``: the dashboard that a row leads to, and its variables."""

    title: str
    description: str
    kind: str
    queries: Sequence[Query]
    unit: str = "none"
    width: int = 8
    most: float | None = None
    link: tuple[str, Sequence[str]] | None = None


class Dashboard(NamedTuple):
    """``variables``: name, and the query for its values."""

    uid: str
    title: str
    panels: Sequence[Panel]
    variables: Sequence[tuple[str, str]] = ()


def line(title: str, description: str, expr: str, legend: str, unit: str = "none", **more: Any) -> Panel:
    """Lines over time."""
    return Panel(title, description, "timeseries", [Query(expr, legend)], unit, **more)


def stat(title: str, description: str, expr: str, unit: str = "none") -> Panel:
    """One number."""
    return Panel(title, description, "stat", [Query(expr)], unit, width=4)


def table(title: str, description: str, *queries: Query, **more: Any) -> Panel:
    """Rows, with a column for each query."""
    return Panel(title, description, "table", queries, **{"width": 12, **more})


_NODE = 'node=~"$node"'
_JOB = 'namespace=~"$namespace",job_name=~"$job"'
_POD = 'namespace=~"$namespace",pod=~"$pod"'
_TENSOR = '__name__=~"DCGM_FI_PROF_(PIPE_TENSOR_ACTIVE|TENSOR_UTIL_RATIO)"'
"""By dcgm-exporter, before and since its names end in units."""
_GPU_LINE = "{{node}} GPU {{gpu}}"
_TO_NODE = ("dutycycle-node", ["node"])
_TO_JOB = ("dutycycle-job", ["namespace", "job:job_name"])
_TO_POD = ("dutycycle-pod", ["namespace", "pod"])

_UNITS = {
    "_ratio": "percentunit", "_bytes": "bytes", "_bytes_per_second": "Bps", "_watts": "watt",
    "_celsius": "celsius", "_hertz": "hertz",
}  # fmt: skip
"""What Grafana calls the unit at the end of a series' name."""


def _of_gpus() -> list[Panel]:
    """What the newest sample of a node has of each GPU, by the catalogue, but what few have asked for."""
    return [
        line(
            row.title, row.sentence, f"dutycycle_{row.series.name}{{{_NODE}}}", _GPU_LINE,
            next(unit for end, unit in _UNITS.items() if row.series.name.endswith(end)),
            most=1 if row.series.name.endswith("_ratio") else None,
        )
        for row in GPU_ROWS
        if row.series is not None and not (row.by_name and row.kind == "setting")
    ]  # fmt: skip


FLEET = Dashboard(
    "dutycycle-fleet",
    "Dutycycle: fleet",
    [
        stat("GPUs", "GPUs that are measured now.", "count(dutycycle_gpu_info)"),
        stat("Utilization", "Mean over all GPUs.", "avg(dutycycle_gpu_utilization_ratio)", "percentunit"),
        stat("Power", "All GPUs together.", "sum(dutycycle_gpu_power_watts)", "watt"),
        stat("Idle pods", "Pods that hold GPUs and do not use them.", "sum(dutycycle_pod_idle)"),
        stat("Cost of idleness", "So far, of the pods that are idle now.",
             "sum(dutycycle_pod_idle_cost) or vector(0)"),
        stat("Throttled GPUs", "GPUs whose clocks are reduced now.",
             "sum(max by (uuid) (dutycycle_gpu_throttled))"),
        line("Busy GPUs", "GPUs kept busy by each namespace, from busy seconds.",
             "namespace:dutycycle_pod_gpu_busy:rate5m", "{{namespace}}"),
        line("Power by namespace", "From the energy of its pods.",
             "namespace:dutycycle_pod_gpu_energy_watts:rate5m", "{{namespace}}", "watt"),
        line("Utilization by node", "Mean over the GPUs of a node.",
             "avg by (node) (dutycycle_gpu_utilization_ratio)", "{{node}}", "percentunit", most=1),
        line("GPU memory by node", "Share in use.",
             "sum by (node) (dutycycle_gpu_memory_used_bytes)"
             " / sum by (node) (dutycycle_gpu_memory_size_bytes)",
             "{{node}}", "percentunit", most=1),
        line("Temperature", "The hottest GPU of each node.",
             "max by (node) (dutycycle_gpu_temperature_celsius)", "{{node}}", "celsius"),
        line("Energy of a day", "By namespace, of the last 24 hours.",
             "sum by (namespace) (increase(dutycycle_pod_gpu_energy_joules_total[1d])) / 3.6e6",
             "{{namespace}}", "kwatth"),
        table("Nodes", "Lead to the node.",
              Query("avg by (node) (dutycycle_gpu_utilization_ratio)", "utilization"),
              Query("sum by (node) (dutycycle_gpu_power_watts)", "watts"),
              Query("sum by (node) (dutycycle_gpu_pods)", "pods"), link=_TO_NODE),
        table("Jobs", "Lead to the job.",
              Query("dutycycle_job_gpus", "GPUs"),
              Query("dutycycle_job_gpu_utilization_mean_ratio", "utilization"),
              Query("dutycycle_job_gpu_power_watts", "watts"), link=_TO_JOB),
        table("Who is idle", "For how long, and at what cost. Lead to the pod.",
              Query("dutycycle_pod_idle_seconds > 0", "seconds"),
              Query("dutycycle_pod_idle_cost > 0", "cost"), link=_TO_POD),
        table("Held and untouched", "GPUs that a pod holds and runs no process on, now. Leads to the pod.",
              Query("sum by (namespace, pod, node) "
                    "(rate(dutycycle_pod_gpu_untouched_seconds_total[5m])) > 0.5", "GPUs"), link=_TO_POD),
        table("Bottlenecks", "How many pods have which.",
              Query("count by (kind, bottleneck) (dutycycle_pod_workload_info)", "pods")),
    ],
)  # fmt: skip

NODE = Dashboard(
    "dutycycle-node",
    "Dutycycle: node",
    [
        *_of_gpus(),
        line("Busy", "The same from busy seconds, which no scrape interval can miss.",
             f"gpu:dutycycle_gpu_busy:rate5m{{{_NODE}}}", _GPU_LINE, "percentunit", most=1),
        line("Utilization in 5 minutes", "The forecast, shown now.",
             f'dutycycle_gpu_utilization_forecast_ratio{{{_NODE},horizon="300s",bound="expected"}}',
             _GPU_LINE, "percentunit", most=1),
        line("Memory is full in", "Only while it is running out.",
             f"dutycycle_gpu_memory_exhausted_seconds{{{_NODE}}}", _GPU_LINE, "s"),
        line("Throttled", "1 while the clocks are reduced.", f"dutycycle_gpu_throttled{{{_NODE}}}",
             "{{node}} GPU {{gpu}}: {{reason}}"),
        line("Tensor cores", "By dcgm-exporter; empty without it.",
             f'{{{_TENSOR},Hostname=~"$node"}} or {{{_TENSOR},hostname=~"$node"}}',
             "{{Hostname}}{{hostname}} GPU {{gpu}}", "percentunit", most=1),
        line("MIG slices", "Utilization of each slice.", f"dutycycle_mig_utilization_ratio{{{_NODE}}}",
             "{{node}} GPU {{gpu}} {{profile}} {{slice}}", "percentunit", most=1),
        line("Cycles", "The period of each GPU's utilization.",
             f'dutycycle_gpu_cycle_period_seconds{{{_NODE},metric="gpu_util_pct"}}', _GPU_LINE, "s"),
        table("Pods", "Lead to the pod.",
              Query(f"dutycycle_pod_gpu_utilization_ratio{{{_NODE}}}", "utilization"),
              Query(f"dutycycle_pod_gpu_memory_used_bytes{{{_NODE}}}", "memory"),
              Query(f"dutycycle_pod_gpu_power_watts{{{_NODE}}}", "watts"), link=_TO_POD),
        table("GPUs", "Models, and how many pods are on each.",
              Query(f"dutycycle_gpu_pods{{{_NODE}}} * on (uuid) group_left (model) dutycycle_gpu_info",
                    "pods")),
    ],
    [("node", "label_values(dutycycle_gpu_info, node)")],
)  # fmt: skip

JOB = Dashboard(
    "dutycycle-job",
    "Dutycycle: job",
    [
        stat("Pods", "", f"dutycycle_job_pods{{{_JOB}}}"),
        stat("GPUs", "", f"dutycycle_job_gpus{{{_JOB}}}"),
        stat("Utilization", "Mean over its GPUs and the last window.",
             f"dutycycle_job_gpu_utilization_mean_ratio{{{_JOB}}}", "percentunit"),
        stat("Highest utilization", "Of the busiest pod, in the last window.",
             f"dutycycle_job_gpu_utilization_max_ratio{{{_JOB}}}", "percentunit"),
        stat("Power", "", f"dutycycle_job_gpu_power_watts{{{_JOB}}}", "watt"),
        stat("GPU memory", "", f"dutycycle_job_gpu_memory_used_bytes{{{_JOB}}}", "bytes"),
        line("Utilization by pod", "At the last sample.", f"dutycycle_pod_gpu_utilization_ratio{{{_JOB}}}",
             "{{pod}}", "percentunit", most=1),
        line("GPU memory by pod", "", f"dutycycle_pod_gpu_memory_used_bytes{{{_JOB}}}", "{{pod}}", "bytes"),
        line("Power by pod", "", f"dutycycle_pod_gpu_power_watts{{{_JOB}}}", "{{pod}}", "watt"),
        line("Step time by pod", "The period of its GPUs' utilization.",
             f'dutycycle_pod_cycle_period_seconds{{{_JOB},metric="gpu_util_pct"}}', "{{pod}}", "s"),
        line("Gap between ranks", "How much the busiest pod works more than the least busy.",
             f"dutycycle_job_rank_gap_ratio{{{_JOB}}}", "{{job_name}}", "percentunit", most=1),
        line("Busy GPUs", "GPUs kept busy, from busy seconds.",
             f"job:dutycycle_pod_gpu_busy:rate5m{{{_JOB}}}", "{{job_kind}} {{job_name}}"),
        stat("Energy of a day", "Of all its pods, in the last 24 hours.",
             f"sum(increase(dutycycle_pod_gpu_energy_joules_total{{{_JOB}}}[1d])) / 3.6e6", "kwatth"),
        stat("GPU hours of a day", "Hours of GPUs that were busy, in the last 24 hours.",
             f"sum(increase(dutycycle_pod_gpu_busy_seconds_total{{{_JOB}}}[1d])) / 3600", "h"),
        table("Kind and bottleneck", "From its behaviour alone.",
              Query(f"dutycycle_job_workload_info{{{_JOB}}}", "now"), width=16),
        table("Its pods", "Lead to the pod.",
              Query(f"dutycycle_pod_gpu_utilization_mean_ratio{{{_JOB}}}", "utilization"),
              Query(f"dutycycle_pod_gpu_memory_used_bytes{{{_JOB}}}", "memory"),
              Query(f"dutycycle_pod_idle{{{_JOB}}}", "idle"), link=_TO_POD, width=24),
    ],
    [("namespace", "label_values(dutycycle_job_gpus, namespace)"),
     ("job", 'label_values(dutycycle_job_gpus{namespace=~"$namespace"}, job_name)')],
)  # fmt: skip

_IN_5M = f'{_POD},horizon="300s"'
POD = Dashboard(
    "dutycycle-pod",
    "Dutycycle: pod",
    [
        stat("GPUs", "", f"sum(dutycycle_pod_gpus{{{_POD}}})"),
        stat("Mean utilization", "Of the last window.", f"dutycycle_pod_gpu_utilization_mean_ratio{{{_POD}}}",
             "percentunit"),
        stat("Step time", "The period of its GPUs' utilization.",
             f'dutycycle_pod_cycle_period_seconds{{{_POD},metric="gpu_util_pct"}}', "s"),
        stat("Memory is full in", "GPU or host memory; empty while it is not running out.",
             f"min(dutycycle_pod_memory_exhausted_seconds{{{_POD}}})", "s"),
        stat("Idle for", "", f"dutycycle_pod_idle_seconds{{{_POD}}}", "s"),
        stat("Cost of idleness", "So far; only with a price.", f"dutycycle_pod_idle_cost{{{_POD}}}"),
        Panel("Utilization", "At the last sample, and of the last window.", "timeseries", [
            Query(f"dutycycle_pod_gpu_utilization_ratio{{{_POD}}}", "{{pod}} now"),
            Query(f"dutycycle_pod_gpu_utilization_mean_ratio{{{_POD}}}", "{{pod}} mean"),
            Query(f"dutycycle_pod_gpu_utilization_p95_ratio{{{_POD}}}", "{{pod}} p95"),
            Query(f"dutycycle_pod_gpu_utilization_max_ratio{{{_POD}}}", "{{pod}} maximum"),
        ], "percentunit", most=1),
        line("Utilization in 5 minutes", "The forecast and its interval, shown now.",
             f"dutycycle_pod_gpu_utilization_forecast_ratio{{{_IN_5M}}}", "{{pod}} {{bound}}", "percentunit"),
        line("GPU memory", "In use.", f"dutycycle_pod_gpu_memory_used_bytes{{{_POD}}}", "{{pod}}", "bytes"),
        line("GPU memory in 5 minutes", "The forecast and its interval, shown now.",
             f"dutycycle_pod_gpu_memory_used_forecast_bytes{{{_IN_5M}}}", "{{pod}} {{bound}}", "bytes"),
        line("Power", "Its part of the power of its GPUs.", f"dutycycle_pod_gpu_power_watts{{{_POD}}}",
             "{{pod}}", "watt"),
        line("Busy", "Of each GPU, from busy seconds.",
             f"rate(dutycycle_pod_gpu_busy_seconds_total{{{_POD}}}[5m])",
             "{{node}} GPU {{gpu}} ({{attribution}})", "percentunit"),
        line("Energy", "Joules since it began, by GPU.", f"dutycycle_pod_gpu_energy_joules_total{{{_POD}}}",
             "{{node}} GPU {{gpu}} ({{attribution}})", "joule"),
        line("Cycle", "1 while there is one, by metric.", f"dutycycle_pod_cyclic{{{_POD}}}", "{{metric}}"),
        line("Confidence of the cycle", "The probability that it is right.",
             f"dutycycle_pod_cycle_confidence_ratio{{{_POD}}}", "{{metric}}", "percentunit", most=1),
        table("Kind and bottleneck", "From its behaviour alone.",
              Query(f"dutycycle_pod_workload_info{{{_POD}}}", "now")),
        table("Its GPUs", "How its use of them is known.", Query(f"dutycycle_pod_gpus{{{_POD}}}", "GPUs")),
    ],
    [("namespace", "label_values(dutycycle_pod_gpus, namespace)"),
     ("pod", 'label_values(dutycycle_pod_gpus{namespace=~"$namespace"}, pod)')],
)  # fmt: skip

DASHBOARDS = {"fleet": FLEET, "node": NODE, "job": JOB, "pod": POD}


def main() -> None:
    for path, text in wanted().items():
        path.write_text(text)


def wanted() -> dict[Path, str]:
    """The text of each file."""
    every = {name: _json(one) for name, one in DASHBOARDS.items()} | {"ledger": ledger_dashboard.dashboard()}
    return {FOLDER / f"{name}.json": json.dumps(one, indent=2) + "\n" for name, one in every.items()}


def _json(dashboard: Dashboard) -> Json:
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["dutycycle"],
        "timezone": "browser",
        "schemaVersion": 41,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                source_variable("datasource", "Data source", "prometheus"),
                *(_variable(*variable) for variable in dashboard.variables),
            ]
        },
        "annotations": {"list": []},
        "links": [
            {
                "title": "Dutycycle", "type": "dashboards", "tags": ["dutycycle"], "asDropdown": True,
                "keepTime": True,
            }
        ],
        "panels": _placed(dashboard.panels),
    }  # fmt: skip


def _variable(name: str, query: str) -> Json:
    return {
        "name": name, "type": "query", "datasource": _SOURCE, "query": {"query": query, "refId": name},
        "refresh": 2, "sort": 1, "multi": True, "includeAll": True,
        "current": {"text": ["All"], "value": ["$__all"]},
    }  # fmt: skip


def _placed(panels: Sequence[Panel]) -> list[Json]:
    """Row by row, from the left."""
    found: list[Json] = []
    x = y = height = 0
    for number, one in enumerate(panels, start=1):
        if x + one.width > _WIDTH:
            x, y, height = 0, y + height, 0
        high = 4 if one.kind == "stat" else 8
        found.append(_panel(number, one, {"x": x, "y": y, "w": one.width, "h": high}))
        x, height = x + one.width, max(height, high)
    return found


def _panel(number: int, one: Panel, place: Json) -> Json:
    defaults: Json = {"unit": one.unit} | ({} if one.most is None else {"min": 0, "max": one.most})
    if one.link is not None:
        defaults["links"] = [_link(*one.link)]
    panel = {
        "id": number,
        "title": one.title,
        "description": one.description,
        "type": one.kind,
        "gridPos": place,
        "datasource": _SOURCE,
        "targets": [_target(chr(ord("A") + at), one, query) for at, query in enumerate(one.queries)],
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {},
    }
    if one.kind == "table":
        names = {f"Value #{chr(ord('A') + at)}": query.legend for at, query in enumerate(one.queries)}
        names |= {"Value": one.queries[0].legend}
        hidden = dict.fromkeys(("Time", "__name__", "instance", "job", "uid", "job_uid"), True)
        panel["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": hidden, "renameByName": names}},
        ]
    return panel


def _target(name: str, panel: Panel, query: Query) -> Json:
    target: Json = {"refId": name, "datasource": _SOURCE, "expr": query.expr, "legendFormat": query.legend}
    if panel.kind == "table":
        target |= {"format": "table", "instant": True, "range": False}
    elif panel.kind == "stat":
        target |= {"instant": True, "range": False}
    return target


def _link(uid: str, variables: Sequence[str]) -> Json:
    """``variables``: names, or ``name:column``."""
    pairs = [(name, column or name) for name, _, column in (one.partition(":") for one in variables)]
    query = "&".join(f"var-{name}=${{__data.fields.{column}}}" for name, column in pairs)
    return {"title": f"Show this {uid.removeprefix('dutycycle-')}", "url": f"/d/{uid}?{query}"}


if __name__ == "__main__":
    main()
