"""Makes one picture of the state for scripts: JSON whose names are those of the records, or lines."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from dutycycle.contract.catalogue import GPU_ROWS, HOST_METRICS, names
from dutycycle.live.lines import plain_lines
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import PodRow, Row
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
        "nodes": [
            {"node": row.name, "ts_ms": row.ts_ms} | _fields(row.now, _HOST) | _findings(state, row)
            for row in state.node_rows()
        ],
        "gpus": [
            {"node": row.node, "index": row.now.index, "uuid": row.now.uuid, "ts_ms": row.ts_ms}
            | _fields(row.now, ("model", *_GPU))
            | _known({"gpu_util_max_pct": row.util_max, "mem_used_max_bytes": row.mem_max})
            | {
                "pods": sorted(
                    pod.title for uid in row.pods
                    if isinstance(pod := state.rows.get(f"pod/{uid}"), PodRow)
                ),
                "processes": [
                    _fields(process, ("pid", "name", "gpu_util_pct", "mem_used_bytes"))
                    for process in row.processes
                ],
            }
            | _findings(state, row)
            for row in state.gpus()
        ],
        "pods": [
            {"pod": row.title, "uid": row.uid, "node": row.node, "ts_ms": row.ts_ms}
            | _known({
                "cpu_util_pct": row.cpu, "mem_used_bytes": row.mem, "cpu_throttled_pct": row.throttled,
                "gpu_util_pct": row.gpu_util, "gpu_mem_used_bytes": row.gpu_mem,
                "cpu_util_max_pct": row.cpu_max, "mem_used_max_bytes": row.mem_max,
                "gpu_util_max_pct": row.gpu_util_max, "gpu_mem_used_max_bytes": row.gpu_mem_max,
            })
            | {"gpus": sorted(row.gpus)}
            | _findings(state, row)
            for row in state.pods()
        ],
        "jobs": [
            {"job": row.title}
            | _known({
                "kind": row.kind, "gpu_util_pct": row.gpu_util,
                "gpu_mem_used_bytes": row.total("gpu_mem"), "cpu_util_pct": row.total("cpu"),
                "mem_used_bytes": row.total("mem"),
            })
            | {"pods": sorted(pod.title for pod in row.pods.values())}
            | _findings(state, row)
            for row in state.jobs()
        ],
        "warnings": warnings(state, degraded),
    }  # fmt: skip


def _known(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value != ""}


def _fields(record: object, names: Iterable[str]) -> dict[str, Any]:
    return _known({name: getattr(record, name) for name in names})


def _findings(state: LiveState, row: Row) -> dict[str, Any]:
    insight = row.derived.read_insight()
    return _known({
        "period_s": period_s(row), "exhausts_in_s": full_in_s(row), "does": activity(state, row),
        "says": says(state, row), "advice": insight.advice if insight else None,
    })  # fmt: skip
