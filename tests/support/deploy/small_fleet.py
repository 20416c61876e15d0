"""Samples of a small fleet that has everything a dashboard shows, at one tick a second.

Node ``a``: two GPUs of ``train-0``, whose memory runs out, one of them at its power limit. Node ``b``: a GPU
of ``train-1``, which has less to do in each step, and a GPU with a MIG slice of ``serve-0``. Node ``c``: a
GPU that ``lazy-0`` holds and does not use.
"""

import math
from collections.abc import Iterator
from typing import Any

from dutycycle.contract.codec import from_plain
from dutycycle.contract.records.pods import Pod
from dutycycle.contract.records.samples import CgroupSample, NvmlSample

GIB = 1024**3
PERIOD_S = 12
NODES = ("a", "b", "c")
PODS = {"train-0": "a", "train-1": "b", "serve-0": "b", "lazy-0": "c"}
POWER_W = {True: 600, False: 200}
PROMETHEUS_PAGE = """\
# HELP DCGM_FI_PROF_PIPE_TENSOR_ACTIVE Ratio of cycles the tensor (HMMA) pipe is active.
# TYPE DCGM_FI_PROF_PIPE_TENSOR_ACTIVE gauge
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{gpu="0",UUID="GPU-a0",modelName="NVIDIA H200",Hostname="a"} 0.4
"""
"""Of a dcgm-exporter, for the only figure that is its alone."""


def pods() -> Iterator[Pod]:
    """Who they are."""
    for name, node in PODS.items():
        kind, job = ("PyTorchJob", "bert") if name.startswith("train") else ("Deployment", name[:-2])
        yield from_plain(
            Pod,
            {
                "v": 1, "uid": f"uid-{name}", "namespace": "ml", "name": name, "node": node,
                "phase": "Running", "gpu_request": 1,
                "job": {"api_version": "v1", "kind": kind, "name": job, "uid": f"job-{job}"},
            },
            "pods",
        )  # fmt: skip


def tick(node: str, number: int, ts_ms: int) -> tuple[NvmlSample, CgroupSample]:
    """Tick ``number`` of a node."""
    head = {"v": 1, "node": node, "collector": node, "seq": number, "ts_ms": ts_ms, "interval_ms": 1000}
    nvml = head | {"gpus": _GPUS[node](number)}
    cgroup = head | {
        "host": {
            "cpu_util_pct": 500,
            "cpu_count": 64,
            "mem_used_bytes": 80 * GIB,
            "mem_total_bytes": 999 * GIB,
        },
        "pods": [_pod(name, number) for name, its in PODS.items() if its == node],
    }
    return from_plain(NvmlSample, nvml, "nvml-samples"), from_plain(CgroupSample, cgroup, "cgroup-samples")


def is_busy(number: int, duty: float) -> bool:
    """Whether a training that is busy for ``duty`` of each step is busy at this tick."""
    return number % PERIOD_S < duty * PERIOD_S


def energy_j(number: int, duty: float) -> float:
    """Of a GPU since tick 0."""
    return float(sum(POWER_W[is_busy(n, duty)] for n in range(number % PERIOD_S + 1)) + (
        number // PERIOD_S * sum(POWER_W[is_busy(n, duty)] for n in range(PERIOD_S))
    ))  # fmt: skip


def _gpu(node: str, index: int, number: int, duty: float, **more: Any) -> dict[str, Any]:
    busy = is_busy(number, duty)
    util = 97 + number % 3 if busy else 1 + number % 2
    return {
        "uuid": f"GPU-{node}{index}", "index": index, "model": "NVIDIA H200", "gpu_util_pct": util,
        "mem_copy_util_pct": util // 2, "mem_total_bytes": 141 * GIB, "mem_used_bytes": 40 * GIB,
        "power_w": POWER_W[busy], "power_limit_w": 700, "energy_j": energy_j(number, duty), "temp_c": 60,
        "mem_temp_c": 74,
        "sm_clock_mhz": 1980, "mem_clock_mhz": 3201, "pcie_rx_bytes_per_s": 10**8,
        "pcie_tx_bytes_per_s": 10**7, "throttle": [], "sw_power_cap_pct": 12, "sw_thermal_pct": 0,
        "hw_thermal_pct": 0, "power_brake_pct": 0, "thermal_pct": 0, "sync_boost_pct": 0,
        "board_limit_pct": 0, "low_util_pct": 0, "reliability_pct": 0, "nvlink_bytes_per_s": 2 * 10**9,
        "sm_active_pct": util, "sm_occupancy_pct": util // 2,
        "tensor_active_pct": util // 2, "dram_active_pct": util // 3, "fp64_active_pct": 0,
        "fp32_active_pct": 8, "fp16_active_pct": 1, "int_active_pct": 9, "tensor_hmma_active_pct": util // 2,
        "tensor_imma_active_pct": 0, "tensor_dfma_active_pct": 0, "jpeg_util_pct": 0, "ofa_util_pct": 0,
        "enc_util_pct": 0, "dec_util_pct": 12,
        "nvlink_rx_bytes_per_s": 10**9,
        "nvlink_tx_bytes_per_s": 10**9, **more,
    }  # fmt: skip


def _training(node: str, index: int, number: int, pod: str, duty: float, **more: Any) -> dict[str, Any]:
    gpu = _gpu(node, index, number, duty, **more)
    used = gpu["mem_used_bytes"]
    process = {
        "pid": 100 + index,
        "pod_uid": f"uid-{pod}",
        "gpu_util_pct": gpu["gpu_util_pct"],
        "mem_used_bytes": used,
    }
    return gpu | {"processes": [process]}


def _of_a(number: int) -> list[dict[str, Any]]:
    leak = (40 + number / 12) * GIB  # full after twenty minutes
    return [
        _training("a", 0, number, "train-0", 0.75, mem_used_bytes=round(leak), throttle=["sw_power_cap"]),
        _training("a", 1, number, "train-0", 0.75, mem_used_bytes=round(leak)),
    ]


def _of_b(number: int) -> list[dict[str, Any]]:
    util = round(50 + 20 * math.sin(number / 40))
    slices = [
        {"uuid": "MIG-b10", "profile": "3g.71gb", "gpu_util_pct": util, "mem_used_bytes": 9 * GIB,
         "mem_total_bytes": 70 * GIB},
        {"uuid": "MIG-b11", "profile": "3g.71gb", "gpu_util_pct": 0, "mem_used_bytes": 0,
         "mem_total_bytes": 70 * GIB},
    ]  # fmt: skip
    given = [
        {"pod_uid": "uid-serve-0", "namespace": "ml", "pod": "serve-0", "container": "c", "mig": "MIG-b10"}
    ]
    sliced = _gpu("b", 1, number, 0.0, mig=slices, allocated=given)
    del sliced["gpu_util_pct"]  # as the driver of a partitioned GPU
    return [_training("b", 0, number, "train-1", 0.3), sliced]


def _of_c(number: int) -> list[dict[str, Any]]:
    gpu = _gpu("c", 0, number, 0.0, gpu_util_pct=0, mem_copy_util_pct=0, dec_util_pct=0)
    process = {"pid": 7, "pod_uid": "uid-lazy-0", "gpu_util_pct": 0, "mem_used_bytes": 40 * GIB}
    return [gpu | {"processes": [process]}]


_GPUS = {"a": _of_a, "b": _of_b, "c": _of_c}


def _pod(name: str, number: int) -> dict[str, Any]:
    training = name.startswith("train")
    container = {"id": name, "cpu_util_pct": (150 if is_busy(number, 0.75) else 90) if training else 5,
                 "cpu_throttled_pct": 0, "mem_used_bytes": 20 * GIB, "mem_limit_bytes": 200 * GIB,
                 "io_read_bytes_per_s": 10**6, "io_write_bytes_per_s": 0}  # fmt: skip
    return {
        "uid": f"uid-{name}",
        "net_rx_bytes_per_s": 1000,
        "net_tx_bytes_per_s": 1000,
        "containers": [container],
    }
