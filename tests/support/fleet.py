"""A live state of a whole fleet: nodes with eight GPUs each, whose pods train, serve and idle in turn."""

import math
from collections.abc import Iterator
from string import ascii_lowercase
from typing import Any

import orjson

from dutycycle.live.model.state import LiveState

GIB = 1024**3
START_MS = 1_700_000_000_000
_PERIODS_S = (10, 16, 7, 30)


Record = tuple[str, str, bytes, int]
"""Topic, key, payload, Unix milliseconds."""


def fleet(gpus: int, ticks: int = 120, now_ms: int | None = None, first: int = 0) -> LiveState:
    """From the ``first`` second after ``START_MS`` for so many seconds; the clock stands at the last one, or
    ``now_ms`` if that is later."""
    state = LiveState(now_ms=now_ms or 0)
    for record in fleet_records(gpus, ticks, first):
        state.feed(*record)
    assert state.unreadable == 0, "a record of the fleet is wrong"
    return state


def fleet_records(gpus: int, ticks: int, first: int = 0) -> Iterator[Record]:
    """Give its records: who the pods are, all samples, and what the streams made of them."""
    nodes = _nodes(gpus)
    for node in nodes:
        for at in range(2):
            yield _record("pods", _uid(node, at), _pod(node, at), first)
    for tick in range(first, first + ticks):
        yield from fleet_tick(gpus, tick)
    for node in nodes:
        yield from _derived(node, first, first + ticks)


def fleet_tick(gpus: int, tick: int) -> Iterator[Record]:
    """Give the samples of one second."""
    for at, node in enumerate(_nodes(gpus)):
        of_node = range(min(8, gpus - 8 * at))
        yield _record("nvml-samples", node, _nvml(node, of_node, tick), tick)
        yield _record("cgroup-samples", node, _cgroup(node, tick), tick)


def _nodes(gpus: int) -> list[str]:
    return [f"gpu-{ascii_lowercase[at] if at < 26 else at}" for at in range(math.ceil(gpus / 8))]


def _record(topic: str, key: str, plain: dict[str, Any], tick: int) -> Record:
    return topic, key, orjson.dumps({"v": 1} | plain), START_MS + 1000 * tick


def _head(node: str, tick: int) -> dict[str, Any]:
    return {"node": node, "collector": "c", "seq": tick, "ts_ms": START_MS + 1000 * tick, "interval_ms": 1000}


def _uid(node: str, at: int) -> str:
    return f"{node}-{at}"


def _pod(node: str, at: int) -> dict[str, Any]:
    """The first four GPUs of a node are of a worker of bert, the others of a server."""
    kind, job = (("PyTorchJob", "bert"), ("Deployment", "chat"))[at]
    name = (f"bert-worker-{node[-1]}", f"chat-{node[-1]}")[at]
    return {
        "uid": _uid(node, at), "namespace": "ml", "name": name, "node": node, "phase": "Running",
        "gpu_request": 4, "job": {"api_version": "v1", "kind": kind, "name": job, "uid": f"job-{job}"},
    }  # fmt: skip


def _util(index: int, tick: int) -> int:
    if index == 7:
        return 0
    period = _PERIODS_S[index % 4]
    if index < 4:
        return 96 if tick % period < 0.7 * period else 3
    return round(50 + 35 * math.sin(tick / period))


def _nvml(node: str, indices: range, tick: int) -> dict[str, Any]:
    return _head(node, tick) | {"gpus": [_gpu(node, index, tick) for index in indices]}


def _gpu(node: str, index: int, tick: int) -> dict[str, Any]:
    util = _util(index, tick)
    used = round((20 + 14 * index + (tick % 1680 / 20 if index == 2 else 0)) * GIB)
    throttle = {1: ["sw_power_cap"], 3: ["hw_thermal_slowdown"]}.get(index, [])
    process = {
        "pid": 4000 + index, "pod_uid": _uid(node, index // 4), "name": "python", "gpu_util_pct": util,
        "mem_used_bytes": used,
    }  # fmt: skip
    return {
        "uuid": f"GPU-{node}-{index}", "index": index, "model": "NVIDIA H200", "gpu_util_pct": util,
        "mem_copy_util_pct": util // 2, "mem_used_bytes": used, "mem_total_bytes": 141 * GIB,
        "power_w": 90 + 6 * util, "power_limit_w": 700, "temp_c": 45 + util // 4 + (19 if index == 3 else 0),
        "sm_clock_mhz": 1980 if util else 345, "throttle": throttle, "processes": [process],
    }  # fmt: skip


def _cgroup(node: str, tick: int) -> dict[str, Any]:
    host = {
        "cpu_util_pct": 3100 + 300 * math.sin(tick / 9), "cpu_count": 64, "mem_used_bytes": 300 * GIB,
        "mem_total_bytes": 1024 * GIB, "disk_read_bytes_per_s": 4e8, "net_rx_bytes_per_s": 2e9,
    }  # fmt: skip
    pods = [
        {
            "uid": _uid(node, at),
            "containers": [{"id": f"c{at}", "cpu_util_pct": 400 + at, "mem_used_bytes": 9 * GIB}],
        }
        for at in range(2)
    ]
    return _head(node, tick) | {"host": host, "pods": pods}


def _derived(node: str, first: int, ticks: int) -> Iterator[Record]:
    since_ms = START_MS + 1000 * first
    ts_ms = START_MS + 1000 * (ticks - 1)
    for index in range(8):
        subject = {"kind": "gpu", "node": node, "gpu": f"GPU-{node}-{index}"}
        key = f"gpu/{node}/GPU-{node}-{index}/nvml"
        head = {"subject": subject, "source": "nvml", "ts_ms": ts_ms}
        if index < 4:
            period_s = float(_PERIODS_S[index])
            cycle = {"cyclic": True, "period_s": period_s, "confidence": 0.97, "since_ms": since_ms}
            yield _record("cycles", key, head | {"metrics": {"gpu_util_pct": cycle}}, ticks - 1)
        ahead = [
            {"horizon_s": horizon, "value": 61, "p05": 61 - horizon / 10, "p95": 61 + horizon / 10}
            for horizon in (10, 30, 300)
        ]
        metrics: dict[str, Any] = {"gpu_util_pct": {"level": 61, "slope_per_s": 0, "forecast": ahead}}
        if index == 2:
            metrics["mem_used_bytes"] = {"level": 1, "slope_per_s": 1, "forecast": [], "exhausts_in_s": 840}
        yield _record("trends", key, head | {"metrics": metrics}, ticks - 1)
    for at, (kind, bottleneck, evidence) in enumerate(_INSIGHTS):
        subject = {"kind": "pod", "node": node, "pod_uid": _uid(node, at)}
        found = {
            "subject": subject, "ts_ms": ts_ms, "since_ms": since_ms, "kind": kind, "confidence": 0.9,
            "bottleneck": bottleneck, "bottleneck_confidence": 0.8, "evidence": evidence,
            "advice": "the GPU waits while one CPU core is busy: use more loader workers",
        }  # fmt: skip
        yield _record("insights", f"pod/{_uid(node, at)}", found, ticks - 1)


_INSIGHTS: tuple[tuple[str, str, dict[str, float]], ...] = (
    ("training", "input", {"gpu_util_pct": 61, "cpu_waiting_pct": 88}),
    ("inference", "over_provisioned", {"gpus": 4, "idle_gpus": 1}),
)
