"""Writes the trace of a cluster that trains: ``python -m bench.cluster_trace --out hour.jsonl.zst``.

Every four nodes run one job with a pod on each. Utilization is a square wave of training steps with
noise, a checkpoint now and then; memory climbs on one job in five. The same seed gives the same bytes.
"""

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass

import orjson

from dutycycle.contract.trace import TraceRecord, TraceWriter

START_MS = 1_700_000_000_000
NODES_A_JOB = 4
GIB = 1024**3


@dataclass(frozen=True)
class Shape:
    """How large the cluster is, and how long it is watched at one tick a second."""

    nodes: int = 100
    gpus: int = 8
    seconds: int = 3600
    seed: int = 0


class Node:
    """One node with one pod that uses all of its GPUs."""

    def __init__(self, number: int, shape: Shape) -> None:
        self.name = f"gpu-{number:03d}"
        self.job = number // NODES_A_JOB
        self.pod_uid = f"00000000-0000-4000-8000-{number:012d}"
        self.number = number
        self._shape = shape
        self._chance = random.Random(f"{shape.seed}/{number}")  # noqa: S311 - a simulation
        self._period = 8 + 3 * (self.job % 7) + 0.37 * (self.job % 3)

    def pod(self) -> bytes:
        """The pod's identity."""
        name = f"train-{self.job}"
        job = {"api_version": "kubeflow.org/v1", "kind": "PyTorchJob", "name": name,
               "uid": f"job-{self.job}", "role": "worker", "replica": self.number % NODES_A_JOB}  # fmt: skip
        return orjson.dumps(
            {"v": 1, "uid": self.pod_uid, "namespace": "ml", "name": f"{name}-worker-{self.number % 4}",
             "node": self.name, "phase": "Running", "created_ms": START_MS, "started_ms": START_MS,
             "gpu_request": self._shape.gpus, "job": job}
        )  # fmt: skip

    def _head(self, second: int) -> dict[str, object]:
        return {"v": 1, "node": self.name, "collector": "bench", "seq": second,
                "ts_ms": START_MS + 1000 * second, "interval_ms": 1000}  # fmt: skip

    def nvml(self, second: int) -> bytes:
        """One tick of all GPUs."""
        busy = (second % self._period) < 0.7 * self._period and second % 600 > 20
        leak = second / self._shape.seconds if self.job % 5 == 0 else 0.0
        gpus = [self._gpu(index, second, busy, leak) for index in range(self._shape.gpus)]
        return orjson.dumps({**self._head(second), "gpus": gpus})

    def _gpu(self, index: int, second: int, busy: bool, leak: float) -> dict[str, object]:
        util = self._chance.randint(88, 100) if busy else self._chance.randint(0, 8)
        memory = round((60 + 70 * leak + self._chance.random()) * GIB)
        power = round(250 + 4.2 * util + self._chance.gauss(0, 6), 3)
        process = {"pid": 4000 + index, "pod_uid": self.pod_uid, "container_id": f"c{self.number}",
                   "name": "python", "gpu_util_pct": max(0, util - 1), "mem_used_bytes": memory}  # fmt: skip
        return {
            "uuid": f"GPU-{self.number:04d}-{index}", "index": index, "model": "NVIDIA H200",
            "gpu_util_pct": util, "mem_copy_util_pct": util // 2, "mem_used_bytes": memory,
            "mem_total_bytes": 141 * GIB, "power_w": power, "power_limit_w": 700,
            "energy_j": round(1e6 + 550.0 * second, 3), "temp_c": 40 + util // 4, "sm_clock_mhz": 1980,
            "mem_clock_mhz": 3201, "pcie_rx_bytes_per_s": self._chance.randint(0, 10**9),
            "pcie_tx_bytes_per_s": self._chance.randint(0, 10**8), "pcie_gen": 5, "pcie_width": 16,
            "throttle": [], "processes": [process],
        }  # fmt: skip

    def cgroup(self, second: int) -> bytes:
        """One tick of the host and the pod."""
        cpu = round(400 + 50 * self._chance.random(), 3)
        container = {"id": f"c{self.number}", "cpu_util_pct": cpu, "cpu_throttled_pct": 0,
                     "mem_used_bytes": 50 * GIB + self._chance.randint(0, GIB), "mem_limit_bytes": 200 * GIB,
                     "io_read_bytes_per_s": 10**6, "io_write_bytes_per_s": 0}  # fmt: skip
        host = {"cpu_util_pct": cpu + 30, "cpu_count": 128, "mem_used_bytes": 80 * GIB,
                "mem_total_bytes": 2048 * GIB, "disk_read_bytes_per_s": 10**6,
                "net_rx_bytes_per_s": 10**7}  # fmt: skip
        pod = {"uid": self.pod_uid, "qos": "burstable", "containers": [container]}
        return orjson.dumps({**self._head(second), "host": host, "pods": [pod]})


def records(shape: Shape) -> Iterator[TraceRecord]:
    """The trace, second by second."""
    nodes = [Node(number, shape) for number in range(shape.nodes)]
    for node in nodes:
        yield _record("pods", node.pod_uid, node.pod(), 0)
    for second in range(shape.seconds):
        for node in nodes:
            yield _record("nvml-samples", node.name, node.nvml(second), second)
            yield _record("cgroup-samples", node.name, node.cgroup(second), second)


def _record(topic: str, key: str, payload: bytes, second: int) -> TraceRecord:
    return TraceRecord(topic=f"dutycycle.{topic}", key=key, payload=payload, ts_ms=START_MS + 1000 * second)


def main() -> None:
    """Write the trace that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    for name in ("nodes", "gpus", "seconds", "seed"):
        parser.add_argument(f"--{name}", type=int, default=getattr(Shape, name))
    args = parser.parse_args()
    shape = Shape(args.nodes, args.gpus, args.seconds, args.seed)
    with TraceWriter(args.out) as trace:
        for record in records(shape):
            trace.write(record)


if __name__ == "__main__":
    main()
