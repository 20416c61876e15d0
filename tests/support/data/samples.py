"""Short ways to write samples, for tests."""

from typing import Any

import orjson

from dutycycle.contract.log import ConsumerRecord
from streams.operators.columns.arrays import Floats
from streams.operators.columns.series import Series
from streams.operators.columns.tick import TickRow, make_layout


def gpu(index: int = 0, **fields: Any) -> dict[str, Any]:
    """A GPU with ``fields``; nothing else is measured."""
    return {"uuid": f"GPU-{index}", "index": index, **fields}


def process(pid: int, pod: str | None = None, util_pct: float | None = None, **fields: Any) -> dict[str, Any]:
    """A process on a GPU, of a pod or of nobody that is known, and what it uses of the GPU."""
    whose = {} if pod is None else {"pod_uid": pod}
    return {"pid": pid, **whose, **({} if util_pct is None else {"gpu_util_pct": util_pct}), **fields}


def nvml(seq: int, gpus: list[dict[str, Any]], *, ts_ms: int | None = None, **fields: Any) -> dict[str, Any]:
    """An nvml sample, one a second."""
    return _sample(seq, ts_ms, fields) | {"gpus": gpus}


def cgroup(seq: int, host: dict[str, Any], pods: list[dict[str, Any]], *, ts_ms: int | None = None,
           **fields: Any) -> dict[str, Any]:  # fmt: skip
    """A cgroup sample, one a second."""
    return _sample(seq, ts_ms, fields) | {"host": host, "pods": pods}


def _sample(seq: int, ts_ms: int | None, fields: dict[str, Any]) -> dict[str, Any]:
    base = {"v": 1, "node": "a", "collector": "c", "seq": seq, "ts_ms": 1000 * seq, "interval_ms": 1000}
    return base | ({} if ts_ms is None else {"ts_ms": ts_ms}) | fields


def record(topic: str, key: str | None, plain: Any, offset: int = 0) -> ConsumerRecord:
    """``plain`` (or bytes, or None) as a record of ``topic``."""
    value = plain if plain is None or isinstance(plain, bytes) else orjson.dumps(plain)
    ts_ms = plain.get("ts_ms", 0) if isinstance(plain, dict) else 0
    return ConsumerRecord(topic, 0, offset, key, value, ts_ms if isinstance(ts_ms, int) else 0)


def tick_of(series: list[Series], values: Floats, ts_ms: int) -> TickRow:
    """A tick of one second with ``values`` of ``series``, and no pods."""
    return TickRow("c", ts_ms // 1000, ts_ms, 1000, make_layout(series, ()), values)
