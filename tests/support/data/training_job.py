"""A trace of one job: it loads, trains in steps, writes checkpoints, and is idle at the end.

One of its GPUs works less than the others, one becomes hot and is throttled, and memory climbs.
"""

import math
import random
from collections.abc import Iterator
from typing import Any

import orjson

from dutycycle.contract.trace import TraceRecord

START_MS = 1_700_000_000_000
GIB = 1024**3
LOADING_S = 60
IDLE_S = 40
STEP_S = 12
CHECKPOINT_EVERY_S = 300
CHECKPOINT_S = 15
UID = "4f0c0000-0000-4000-8000-000000000001"


def training_job(seconds: int = 1200, gpus: int = 2, idle_s: int = IDLE_S) -> Iterator[TraceRecord]:
    """The records, tick by tick, of ``seconds`` on one node, the last ``idle_s`` of them idle."""
    chance = random.Random(7)  # noqa: S311 - a simulation
    pod = {
        "v": 1,
        "uid": UID,
        "namespace": "ml",
        "name": "bert-worker-0",
        "node": "gpu-a",
        "phase": "Running",
        "created_ms": START_MS,
        "started_ms": START_MS,
        "gpu_request": gpus,
        "job": {
            "api_version": "kubeflow.org/v1", "kind": "PyTorchJob", "name": "bert", "uid": "job-1",
            "role": "worker", "replica": 0,
        },
    }  # fmt: skip
    yield _record("pods", UID, pod, START_MS)
    energy = [0.0] * gpus
    for second in range(seconds):
        ts_ms = START_MS + second * 1000
        does = activity(second, seconds - idle_s)
        head = {"v": 1, "node": "gpu-a", "collector": "c", "seq": second, "ts_ms": ts_ms, "interval_ms": 1000}
        found = []
        for index in range(gpus):
            one = _gpu(index, second, does, chance)
            energy[index] += one["power_w"]
            found.append({**one, "energy_j": round(energy[index], 3)})
        yield _record("nvml-samples", "gpu-a", {**head, "gpus": found}, ts_ms)
        yield _record("cgroup-samples", "gpu-a", {**head, **_host(does, chance)}, ts_ms)


def activity(second: float, idle_from: int) -> str:
    """What the job does at this moment: loading, working, waiting (within a step), checkpoint or idle."""
    if second < LOADING_S:
        return "loading"
    if second >= idle_from:
        return "idle"
    since = second - LOADING_S
    if since >= CHECKPOINT_EVERY_S and since % CHECKPOINT_EVERY_S < CHECKPOINT_S:
        return "checkpoint"
    return "working" if since % STEP_S < 0.75 * STEP_S else "waiting"


def _gpu(index: int, second: float, does: str, chance: random.Random) -> dict[str, Any]:
    level = 62 if index == 1 else 96
    util = max(0, min(100, round(level + chance.gauss(0, 2)))) if does == "working" else 0
    util = chance.randint(3, 9) if does == "waiting" else util
    heat = 1 - math.exp(-max(second - LOADING_S, 0) / 240)
    temp = round(38 + heat * (util / 100 * 30 + 18) + (8 if index == 0 else 0))
    hot = index == 0 and temp >= 86
    memory = 2 * GIB if does == "loading" else round((58 + second / 60 + 3 * index) * GIB)
    return {
        "uuid": f"GPU-{index:04d}",
        "index": index,
        "model": "NVIDIA H200",
        "gpu_util_pct": util,
        "mem_copy_util_pct": util // 2,
        "mem_used_bytes": memory,
        "mem_total_bytes": 141 * GIB,
        "power_w": round(90 + 5.4 * util + chance.gauss(0, 5), 1),
        "power_limit_w": 700,
        "temp_c": temp,
        "sm_clock_mhz": 1410 if hot else 1980 if util else 345,
        "throttle": ["hw_thermal_slowdown"] if hot else [],
        "processes": [
            {
                "pid": 4000 + index, "pod_uid": UID, "container_id": "c1", "name": "python",
                "gpu_util_pct": util, "mem_used_bytes": memory,
            }
        ],
    }  # fmt: skip


def _host(does: str, chance: random.Random) -> dict[str, object]:
    cpu = {"loading": 380, "working": 210, "waiting": 640, "checkpoint": 130, "idle": 2}[does]
    read = {"loading": 400e6, "waiting": 90e6}.get(does, 0)
    written = 550e6 if does == "checkpoint" else 0
    use = round(cpu * chance.uniform(0.9, 1.1), 1)
    container = {
        "id": "c1", "cpu_util_pct": use, "cpu_throttled_pct": 0, "mem_used_bytes": 48 * GIB,
        "mem_limit_bytes": 200 * GIB, "io_read_bytes_per_s": read, "io_write_bytes_per_s": written,
    }  # fmt: skip
    host = {
        "cpu_util_pct": use + 40, "cpu_count": 64, "mem_used_bytes": 80 * GIB, "mem_total_bytes": 1024 * GIB,
        "disk_read_bytes_per_s": read, "disk_write_bytes_per_s": written, "net_rx_bytes_per_s": 12_000_000,
        "net_tx_bytes_per_s": 9_000_000,
    }  # fmt: skip
    pod = {
        "uid": UID,
        "qos": "burstable",
        "containers": [container],
        "net_rx_bytes_per_s": 3_000_000 if does == "working" else 0,
        "net_tx_bytes_per_s": 2_000_000,
    }
    return {"host": host, "pods": [pod]}


def _record(topic: str, key: str, plain: object, ts_ms: int) -> TraceRecord:
    return TraceRecord(topic=f"dutycycle.{topic}", key=key, payload=orjson.dumps(plain), ts_ms=ts_ms)
