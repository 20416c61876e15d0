"""Makes one picture of the state for scripts: JSON whose names are those of the records, or lines."""

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from dutycycle.contract.catalogue import GPU_ROWS, HOST_METRICS, names
from dutycycle.live.lines import plain_lines
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, JobRow, NodeRow, PodRow, Row
from dutycycle.live.views.findings import activity, full_in_s, period_s, says
from dutycycle.live.views.warnings import warnings

_GPU = (*names(GPU_ROWS), "throttle")
_HOST = (*HOST_METRICS, "cpu_count")


def written(state: LiveState, degraded: Sequence[str], form: str) -> str:
    """Return the state as ``text`` or ``json``."""
    if form == "json":
        return orjson.dumps(picture(state, degraded), option=orjson.OPT_INDENT_2).decode()
    lines = (f"! {line}" for line in warnings(state, degraded))
    return "\n".join((*lines, *plain_lines(state, most_pods=None)))


def picture(state: LiveState, degraded: Sequence[str]) -> dict[str, Any]:
    """Return all subjects; what is not known is absent."""
    return {
        "nodes": [_node(state, row) for row in state.node_rows()],
        "gpus": [_gpu(state, row) for row in state.gpus()],
        "pods": [_pod(state, row) for row in state.pods()],
        "jobs": [_job(state, row) for row in state.jobs()],
        "warnings": warnings(state, degraded),
    }


def _known(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None and value != ""}


def _node(state: LiveState, row: NodeRow) -> dict[str, Any]:
    figures = ((name, getattr(row.now, name)) for name in _HOST)
    return {"node": row.name, "ts_ms": row.ts_ms} | _known(figures) | _findings(state, row)


def _gpu(state: LiveState, row: GpuRow) -> dict[str, Any]:
    head = {"node": row.node, "index": row.now.index, "uuid": row.now.uuid, "ts_ms": row.ts_ms}
    figures = ((name, getattr(row.now, name)) for name in ("model", *_GPU))
    pods = sorted(pod.title for uid in row.pods if isinstance(pod := state.rows.get(f"pod/{uid}"), PodRow))
    maxima = {"gpu_util_max_pct": row.util_max, "mem_used_max_bytes": row.mem_max}
    processes = [
        _known((name, getattr(process, name)) for name in ("pid", "name", "gpu_util_pct", "mem_used_bytes"))
        for process in row.processes
    ]
    more = {"pods": pods, "processes": processes}
    return head | _known(figures) | _known(maxima.items()) | more | _findings(state, row)


def _pod(state: LiveState, row: PodRow) -> dict[str, Any]:
    figures = {
        "cpu_util_pct": row.cpu, "mem_used_bytes": row.mem, "cpu_throttled_pct": row.throttled,
        "gpu_util_pct": row.gpu_util, "gpu_mem_used_bytes": row.gpu_mem, "cpu_util_max_pct": row.cpu_max,
        "mem_used_max_bytes": row.mem_max, "gpu_util_max_pct": row.gpu_util_max,
        "gpu_mem_used_max_bytes": row.gpu_mem_max,
    }  # fmt: skip
    head = {"pod": row.title, "uid": row.uid, "node": row.node, "ts_ms": row.ts_ms}
    return head | _known(figures.items()) | {"gpus": sorted(row.gpus)} | _findings(state, row)


def _job(state: LiveState, row: JobRow) -> dict[str, Any]:
    figures = {
        "kind": row.kind, "gpu_util_pct": row.gpu_util,
        "gpu_mem_used_bytes": row.total("gpu_mem"), "cpu_util_pct": row.total("cpu"),
        "mem_used_bytes": row.total("mem"),
    }  # fmt: skip
    pods = sorted(pod.title for pod in row.pods.values())
    return {"job": row.title} | _known(figures.items()) | {"pods": pods} | _findings(state, row)


def _findings(state: LiveState, row: Row) -> dict[str, Any]:
    insight = row.derived.read_insight()
    values = {
        "period_s": period_s(row), "exhausts_in_s": full_in_s(row), "does": activity(state, row),
        "says": says(state, row), "advice": insight.advice if insight else None,
    }  # fmt: skip
    return _known(values.items())
