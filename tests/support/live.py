"""A live state from plain records: what every record has beside what a test is about is filled in."""

from typing import Any

import orjson

from dutycycle.live.model.state import LiveState

GIB = 1024**3
POD = {"v": 1, "uid": "p", "namespace": "ml", "name": "train-0", "node": "a", "phase": "Running"}
GPU = {"kind": "gpu", "node": "a", "gpu": "GPU-1"}
POD_SUBJECT = {"kind": "pod", "node": "a", "pod_uid": "p"}
_HEADS: dict[str, dict[str, Any]] = {
    "nvml-samples": {"collector": "c", "seq": 0, "interval_ms": 1000},
    "cgroup-samples": {"collector": "c", "seq": 0, "interval_ms": 1000},
    "insights": {"ts_ms": 1000, "since_ms": 1000, "confidence": 0.9, "bottleneck_confidence": 0.9},
}  # fmt: skip
Fed = tuple[str, str, dict[str, Any] | None]


def feed(state: LiveState, topic: str, key: str, plain: dict[str, Any] | None) -> None:
    """Give it a record, at the moment that it is of."""
    if plain is None:
        state.feed(topic, key, None, state.now_ms)
        return
    payload = orjson.dumps({"v": 1} | _HEADS.get(topic, {}) | plain)
    state.feed(topic, key, payload, plain.get("ts_ms", state.now_ms))


def fed(*records: Fed, state: LiveState | None = None) -> LiveState:
    """A state that has seen these."""
    state = LiveState() if state is None else state
    for topic, key, plain in records:
        feed(state, topic, key, plain)
    assert state.unreadable == 0, "a test's own record is wrong"
    return state


def nvml(util: float | None, ts_ms: int = 1000, **more: Any) -> dict[str, Any]:
    """A tick of node a with one GPU, on which a process of pod p runs; ``more`` is of the GPU."""
    process = {"pid": 7, "name": "python", "pod_uid": "p", "gpu_util_pct": 41, "mem_used_bytes": 2 * GIB}
    one: dict[str, Any] = {"uuid": "GPU-1", "index": 0, "model": "H200", "mem_used_bytes": 3 * GIB,
                           "mem_total_bytes": 141 * GIB, "processes": [process]}  # fmt: skip
    if util is not None:
        one["gpu_util_pct"] = util
    return {"node": "a", "ts_ms": ts_ms, "gpus": [one | more]}


def cgroup(ts_ms: int = 1000) -> dict[str, Any]:
    """A tick of node a with pod p, which has two containers."""
    pod = {"uid": "p", "containers": [{"id": "1", "cpu_util_pct": 30}, {"id": "2", "cpu_util_pct": 20.5}]}
    host = {"cpu_util_pct": 150, "mem_used_bytes": 5 * GIB, "mem_total_bytes": 8 * GIB}
    return {"node": "a", "ts_ms": ts_ms, "host": host, "pods": [pod]}


def cycles(subject: dict[str, Any], source: str = "nvml", **metrics: dict[str, Any]) -> Fed:
    """A record of cycles."""
    plain = {"subject": subject, "source": source, "ts_ms": 1000, "metrics": metrics}
    return "cycles", f"{_key(subject)}/{source}", plain


def trends(subject: dict[str, Any] = GPU, source: str = "nvml", **metrics: dict[str, Any]) -> Fed:
    """A record of trends."""
    plain = {"subject": subject, "source": source, "ts_ms": 1000, "metrics": metrics}
    return "trends", f"{_key(subject)}/{source}", plain


def ahead(value: float, **more: float) -> dict[str, Any]:
    """The trend of a metric that is ``value`` in five minutes."""
    forecast = {"horizon_s": 300, "value": value, "p05": value - 1, "p95": value + 1}
    return {"level": value, "slope_per_s": 0, "forecast": [forecast], **more}


def insight(kind: str, bottleneck: str, uid: str = "p", evidence: dict[str, float] | None = None) -> Fed:
    """What a pod does."""
    subject = POD_SUBJECT | {"pod_uid": uid}
    plain = {"subject": subject, "kind": kind, "bottleneck": bottleneck, "evidence": evidence or {}}
    return "insights", f"pod/{uid}", plain


def _key(subject: dict[str, Any]) -> str:
    return (
        f"gpu/{subject['node']}/{subject['gpu']}" if subject["kind"] == "gpu" else f"pod/{subject['pod_uid']}"
    )
