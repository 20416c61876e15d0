"""An hour and a half of one node: two teams, a pod without a team that does nothing, and a GPU that changes
hands. Every sum of it is a round number."""

from collections.abc import Iterator
from typing import Any

import orjson

from dutycycle.contract.log import ConsumerRecord

HOUR_MS = 3_600_000
STEP_S = 10
SECONDS = 5400
HALF_S = 1800
PODS = {
    # uid: (namespace, team, GPU, from second, to second, utilization, cores)
    "pod-a": ("ml", "nlp", 0, 0, SECONDS, 80, 2.5),
    "pod-b": ("cv", "vision", 1, 0, HALF_S, 10, 1),
    "pod-c": ("ml", "nlp", 1, HALF_S, 2 * HALF_S, 100, 1),
    "pod-d": ("default", None, 2, 0, SECONDS, 0, 0),
}
WATTS = (300, 100, 50)
HOST_CORES = 6


def two_teams(start_ms: int, collector: str = "c") -> Iterator[ConsumerRecord]:
    """The samples, tick by tick; ``start_ms``: the beginning of an hour."""
    for uid, (namespace, team, *_) in PODS.items():
        yield _record("pods", uid, pod(uid, namespace, team, "Running", start_ms), start_ms)
    for second in range(0, SECONDS, STEP_S):
        ts_ms = start_ms + second * 1000
        head = {
            "v": 1, "node": "gpu-a", "collector": collector, "seq": second // STEP_S, "ts_ms": ts_ms,
            "interval_ms": STEP_S * 1000,
        }  # fmt: skip
        there = {uid: of for uid, of in PODS.items() if of[3] <= second < of[4]}
        yield _record(
            "nvml-samples", "gpu-a", head | {"gpus": [_gpu(at, second, there) for at in range(3)]}, ts_ms
        )
        host = {"cpu_util_pct": 100 * HOST_CORES, "mem_used_bytes": 2**37}
        pods = [
            {"uid": uid, "containers": [{"id": uid, "cpu_util_pct": 100 * of[6], "mem_used_bytes": 2**32}]}
            for uid, of in there.items()
        ]
        yield _record("cgroup-samples", "gpu-a", head | {"host": host, "pods": pods}, ts_ms)
        for uid, of in PODS.items():
            if of[4] == second:
                yield _record("pods", uid, pod(uid, of[0], of[1], "Succeeded", start_ms), ts_ms)


def pod(uid: str, namespace: str, team: str | None, phase: str, start_ms: int) -> dict[str, Any]:
    """A pod of a job, with the labels of its team."""
    labels = {"labels": {"team": team, "cost-centre": f"cc-{team}"}} if team else {}
    job = {"api_version": "batch/v1", "kind": "Job", "name": f"job-of-{uid}", "uid": f"job-{uid}"}
    return {
        "v": 1, "uid": uid, "namespace": namespace, "name": f"name-of-{uid}", "node": "gpu-a",
        "phase": phase, "started_ms": start_ms, "gpu_request": 1, "cpu_request": 4,
        "mem_request_bytes": 2**34, "job": job,
    } | labels  # fmt: skip


def _gpu(index: int, second: int, there: dict[str, Any]) -> dict[str, Any]:
    found = {uid: of for uid, of in there.items() if of[2] == index}
    return {
        "uuid": f"GPU-{index}", "index": index, "model": "NVIDIA H200", "mem_used_bytes": 2**35,
        "gpu_util_pct": sum(of[5] for of in found.values()), "energy_j": 5000 + WATTS[index] * second,
        "processes": [
            {"pid": at, "pod_uid": uid, "gpu_util_pct": of[5], "mem_used_bytes": 2**33}
            for at, (uid, of) in enumerate(found.items())
        ],
    }  # fmt: skip


def _record(topic: str, key: str, plain: dict[str, Any], ts_ms: int) -> ConsumerRecord:
    return ConsumerRecord(topic, 0, 0, key, orjson.dumps(plain), ts_ms)
