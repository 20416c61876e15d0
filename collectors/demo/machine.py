"""Simulates a node with eight GPUs, measured once a tick as a real one is: NVML, cgroups, pods, processes."""

import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

from collectors.base import Tick, of_node
from collectors.demo.workloads import SLOWED_AFTER_S, STRAGGLER, WORKLOADS, DemoWorkload, GpuLoad
from dutycycle.contract.codec import encode
from dutycycle.contract.log import ProducerRecord
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.processes import Loop, Package, Process, ProcessSample, Software
from dutycycle.contract.records.samples import (
    Allocation,
    CgroupSample,
    Container,
    Gpu,
    GpuProcess,
    Host,
    NvmlSample,
    PodCgroup,
)

MODEL = "NVIDIA H100 80GB HBM3 (simulated)"
GPUS = 8
CORES, HOST_MEMORY = 96, 1024 * 1024**3
_GPU_MEMORY = 80 * 1024**3
IDLE_W, LIMIT_W, CLOCK_MHZ = 72.0, 700.0, 1980
_BURSTS_PER_S = 6
"""The driver averages utilization over a sixth of a second, and keeps the averages in a buffer."""
_MOST_BURSTS = 60
_NVLINK_BYTES_PER_S = 4e10
_AROUND_C, _HEATING_S = 30.0, 45.0
_SOFTWARE_EVERY_S = 60
_OWNERS = [
    (workload, rank)
    for gpu in range(GPUS)
    for workload in WORKLOADS
    for rank, gpus in enumerate(workload.gpus)
    if gpu in gpus
]
"""The workload of each GPU by index, and the number of the pod in it."""


class DemoMachine:
    """Measures the workloads of ``workloads`` at each tick; the first tick is their start. The only collector
    where it is used.

    The records depend on the ticks and the seed alone. Ticks come in order.
    """

    name = "demo"

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 - a simulation
        self._start_ms: int | None = None
        self._last_s = 0.0
        self._energy_j = [1e6 * (gpu + 1) for gpu in range(GPUS)]
        self._temp_c = [_AROUND_C + 4 + gpu / 2 for gpu in range(GPUS)]
        self._software_due_s = 0.0
        self._lives: dict[str, int] = {}
        self._reported: dict[int, tuple[int, float]] = {}
        """By GPU: the steps that its process has reported, and when."""

    def collect(self, tick: Tick) -> Sequence[ProducerRecord]:
        """Give the records of a tick: pods that are new or ended, then the samples; never fails."""
        if self._start_ms is None:
            self._start_ms = tick.ts_ms
        second = (tick.ts_ms - self._start_ms) / 1000
        elapsed_s = second - self._last_s if tick.seq else tick.interval_ms / 1000
        self._last_s = second
        records: list[ProducerRecord] = []
        for workload in WORKLOADS:
            life = 0 if workload.life_s is None else int(second // workload.life_s)
            known = self._lives.get(workload.name)
            if known == life:
                continue
            self._lives[workload.name] = life
            for rank in range(len(workload.gpus)):
                if known is not None:
                    records.append(_pod(tick, workload, rank, known, phase="Failed"))
                records.append(_pod(tick, workload, rank, life, phase="Running"))
        gpus = tuple(
            self._gpu(index, workload, rank, second, elapsed_s)
            for index, (workload, rank) in enumerate(_OWNERS)
        )
        records.append(of_node("nvml-samples", NvmlSample(**tick.head, gpus=gpus)))
        host, pods = self._cgroups(second)
        records.append(of_node("cgroup-samples", CgroupSample(**tick.head, host=host, pods=pods)))
        if processes := tuple(self._processes(second)):
            records.append(of_node("processes", ProcessSample(**tick.head, processes=processes)))
        return records

    def close(self) -> None:
        """Close nothing: it holds nothing."""

    def _gpu(self, index: int, workload: DemoWorkload, rank: int, second: float, elapsed_s: float) -> Gpu:
        number = min(max(round(elapsed_s * _BURSTS_PER_S), 1), _MOST_BURSTS)
        utils, watts, loads, traffic, clock = [], [], [], 0.0, 1.0
        for sample in range(number):
            offset_s = (sample + 1 - number) * elapsed_s / number
            load = workload.load(index, max(second + offset_s, 0.0))
            offset_ms = round(1000 * offset_s)
            util = 0
            if load.busy:
                util = min(max(round(100 * load.busy + self._random.gauss(0, 1.2)), 0), 100)
            utils.append((offset_ms, util))
            power = IDLE_W + load.effort * (LIMIT_W - IDLE_W)
            measured_power = round(min(power * self._random.gauss(1, 0.012), LIMIT_W), 1)
            watts.append((offset_ms, measured_power))
            traffic, clock = load.memory_traffic, load.clock
            loads.append(load)
        power_w = sum(watt for _, watt in watts) / number
        self._energy_j[index] += power_w * elapsed_s
        hot = index == STRAGGLER and second >= SLOWED_AFTER_S - 300
        goal_c = _AROUND_C + index / 2 + 0.055 * power_w + (24 if hot else 0)
        self._temp_c[index] += (goal_c - self._temp_c[index]) * (1 - math.exp(-elapsed_s / _HEATING_S))
        memory = round(workload.gpu_memory(index, second))
        uid = _uid(workload, rank, self._lives[workload.name])
        return Gpu(
            uuid=f"GPU-simulated-{index}", index=index, model=MODEL, gpu_util_pct=util,
            mem_copy_util_pct=round(100 * traffic), mem_used_bytes=memory, mem_total_bytes=_GPU_MEMORY,
            power_w=watts[-1][1], power_limit_w=LIMIT_W, energy_j=round(self._energy_j[index], 3),
            temp_c=round(self._temp_c[index]),
            sm_clock_mhz=round(CLOCK_MHZ * clock * self._random.gauss(1, 0.002)) if util > 3 else 345,
            throttle=("hw_thermal_slowdown",) if clock < 1 else (), util_burst=tuple(utils),
            power_burst=tuple(watts),
            **_activity(loads, several=sum(map(len, workload.gpus)) > 1),
            processes=(
                GpuProcess(
                    pid=_pid(index), pod_uid=uid, container_id=f"{uid}-main", name="python",
                    gpu_util_pct=util, mem_used_bytes=memory,
                ),
            ),
            allocated=(
                Allocation(
                    pod_uid=uid, namespace=workload.namespace,
                    pod=_pod_name(workload, rank, self._lives[workload.name]), container="main",
                ),
            ),
        )  # fmt: skip

    def _cgroups(self, second: float) -> tuple[Host, tuple[PodCgroup, ...]]:
        pods, cores, memory, read, write, net = [], 1.4, 30.0 * 1024**3, 0.0, 2e5, 0.0
        for workload in WORKLOADS:
            load = workload.host(second)
            for rank in range(len(workload.gpus)):
                used = load.cores * self._random.uniform(0.96, 1.0)
                uid = _uid(workload, rank, self._lives[workload.name])
                container = Container(
                    id=f"{uid}-main", cpu_util_pct=round(100 * used, 1),
                    cpu_throttled_pct=load.throttled_pct, mem_used_bytes=round(load.mem_bytes),
                    io_read_bytes_per_s=round(load.read_bytes_per_s),
                    io_write_bytes_per_s=round(load.write_bytes_per_s),
                )  # fmt: skip
                traffic = round(load.net_bytes_per_s)
                pods.append(
                    PodCgroup(
                        uid=uid, qos="burstable", containers=(container,), net_rx_bytes_per_s=traffic,
                        net_tx_bytes_per_s=traffic,
                    )
                )  # fmt: skip
                cores, memory, net = cores + used, memory + load.mem_bytes, net + traffic
                read, write = read + load.read_bytes_per_s, write + load.write_bytes_per_s
        host = Host(
            cpu_util_pct=round(100 * cores, 1), cpu_count=CORES, mem_used_bytes=round(memory),
            mem_total_bytes=HOST_MEMORY, disk_read_bytes_per_s=round(read),
            disk_write_bytes_per_s=round(write), net_rx_bytes_per_s=round(net), net_tx_bytes_per_s=round(net),
        )  # fmt: skip
        return host, tuple(pods)

    def _processes(self, second: float) -> Iterator[Process]:
        """Yield what the processes run, once a minute, and the steps that a training did since it said so
        last."""
        with_software = second >= self._software_due_s
        if with_software:
            self._software_due_s = second + _SOFTWARE_EVERY_S
        for index, (workload, rank) in enumerate(_OWNERS):
            uid = _uid(workload, rank, self._lives[workload.name])
            software = None
            if with_software:
                world = sum(map(len, workload.gpus))
                software = Software(
                    python="3.12", frameworks=(Package(name="torch", version="2.9.0"),), cuda="13.0",
                    nccl="2.28" if world > 1 else None, rank=index if world > 1 else None,
                    world_size=world if world > 1 else None,
                )  # fmt: skip
            loop = None
            if workload.steps is not None:
                steps = math.floor(workload.steps(second))
                before, since_s = self._reported.get(index, (0, 0.0))
                if finished := steps - before:
                    self._reported[index] = steps, second
                    loop = Loop(
                        loop="train", steps=finished, seconds=round(second - since_s, 3),
                        samples=32 * finished, step=steps, batch_size=32,
                    )  # fmt: skip
            if software is not None or loop is not None:
                yield Process(
                    pid=_pid(index), pod_uid=uid, container_id=f"{uid}-main", name="python",
                    software=software, loop=loop,
                )  # fmt: skip


def _pid(index: int) -> int:
    return 4000 + index


def _uid(workload: DemoWorkload, rank: int, life: int) -> str:
    return f"simulated-{_pod_name(workload, rank, life)}"


def _pod_name(workload: DemoWorkload, rank: int, life: int) -> str:
    return f"{workload.name}-{rank if workload.life_s is None else life}"


def _pod(tick: Tick, workload: DemoWorkload, rank: int, life: int, phase: str) -> ProducerRecord:
    pod = Pod(
        uid=_uid(workload, rank, life), namespace=workload.namespace, name=_pod_name(workload, rank, life),
        node=tick.node, phase=phase, created_ms=tick.ts_ms, started_ms=tick.ts_ms,
        finished_ms=tick.ts_ms if phase == "Failed" else None, images=(workload.image,),
        gpu_uuids=tuple(f"GPU-simulated-{gpu}" for gpu in workload.gpus[rank]),
        gpu_request=len(workload.gpus[rank]), cpu_request=workload.cpu_request,
        job=JobRef(
            api_version=workload.owner_api, kind=workload.owner_kind, name=workload.owner,
            uid=f"simulated-{workload.owner}", replica=rank,
        ),
        labels={"team": workload.team},
    )  # fmt: skip
    return ProducerRecord(topic="pods", key=pod.uid, value=encode(pod), ts_ms=tick.ts_ms)


def _activity(loads: list[GpuLoad], *, several: bool) -> dict[str, Any]:
    """Return what the counters of a GPU say of the mean of ``loads``. Power is what tensor cores, memory and
    the rest need: what memory does not explain is computation. ``several``: its job has other GPUs, too."""
    busy, effort, traffic = (
        sum(part) / len(loads)
        for part in zip(*((load.busy, load.effort, load.memory_traffic) for load in loads), strict=True)
    )
    sm = min(0.3 * busy + effort, busy)
    shares = {
        "sm_active_pct": sm, "sm_occupancy_pct": 0.4 * sm, "dram_active_pct": 0.75 * traffic,
        "tensor_active_pct": 0.8 * max(effort - 0.3 * traffic - 0.1 * busy, 0.0), "fp64_active_pct": 0.0,
        "fp32_active_pct": 0.08 * sm, "fp16_active_pct": 0.02 * sm,
    }  # fmt: skip
    nvlink = round(_NVLINK_BYTES_PER_S * busy) if several else 0
    return {name: round(100 * share, 1) for name, share in shares.items()} | {
        "nvlink_rx_bytes_per_s": nvlink, "nvlink_tx_bytes_per_s": nvlink,
    }  # fmt: skip
