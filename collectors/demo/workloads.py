"""Says what the pods of the simulated machine do: pure functions of the seconds since it was started.

Five workloads, each with one thing to discover: a training whose fourth rank is slowed by heat, a training
whose memory leaks until it fails, a training that waits for its loader, a server with a load in waves, and
a notebook that holds a GPU and does nothing.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

GIB = 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuLoad:
    """Say what a GPU does at a moment: the share of time with a kernel (0-1), the share of its dynamic power
    that this takes (0-1), the share of time with memory traffic (0-1), and the clock as a share of the
    highest."""

    busy: float = 0.0
    effort: float = 0.0
    memory_traffic: float = 0.0
    clock: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLoad:
    """Say what a pod takes of its node at a moment: cores, bytes of memory, and bytes a second."""

    cores: float = 0.05
    mem_bytes: float = 2 * GIB
    throttled_pct: float = 0.0
    read_bytes_per_s: float = 0.0
    write_bytes_per_s: float = 0.0
    net_bytes_per_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoWorkload:
    """Describes one pod, or several alike, of one owner. ``gpus``: the indices of each pod's GPUs.

    ``load`` and ``host`` take seconds since the start; ``load`` takes the GPU's index first, ``gpu_memory``
    is bytes by both. ``life_s``: after so many seconds the pod fails and another one takes its place.
    ``steps``: how many steps its training loop has finished by then, for a training that reports them.
    """

    namespace: str
    name: str
    owner_api: str
    owner_kind: str
    owner: str
    gpus: tuple[tuple[int, ...], ...]
    load: Callable[[int, float], GpuLoad]
    gpu_memory: Callable[[int, float], float]
    host: Callable[[float], HostLoad]
    team: str
    image: str
    cpu_request: float
    life_s: float | None = None
    steps: Callable[[float], float] | None = None


STEP_S, STEP_BUSY, SLOWED_AFTER_S, SLOWED_BY = 2.4, 0.82, 1800.0, 1.25
CHECKPOINT_EVERY_S, CHECKPOINT_S = 300.0, 12.0
STRAGGLER = 3
"""The GPU that becomes hot, and with it slow, after half an hour."""


def in_checkpoint(second: float) -> bool:
    """Tell whether the training writes a checkpoint."""
    return second > CHECKPOINT_EVERY_S and second % CHECKPOINT_EVERY_S < CHECKPOINT_S


def trained_s(second: float) -> float:
    """Count the seconds of training until a moment: those of checkpoints are left out."""
    checkpoints = math.floor(second / CHECKPOINT_EVERY_S)
    if checkpoints == 0:
        return second
    return second - (checkpoints - 1) * CHECKPOINT_S - min(second % CHECKPOINT_EVERY_S, CHECKPOINT_S)


def finished_steps(second: float) -> float:
    """Count the steps of the training until a moment; a fraction is of the step that runs."""
    trained = trained_s(second)
    before = min(trained, SLOWED_AFTER_S)
    return before / STEP_S + (trained - before) / (STEP_S * SLOWED_BY)


def data_parallel(gpu: int, second: float) -> GpuLoad:
    """Simulate four ranks that compute, then wait for one another; once one of them is slow, the three others
    spin: their utilization stays full, and their power falls."""
    if in_checkpoint(second):
        return GpuLoad(busy=0.02, effort=0.02)
    progress = finished_steps(second) % 1.0
    slowed = trained_s(second) >= SLOWED_AFTER_S
    computes = STEP_BUSY if gpu == STRAGGLER or not slowed else STEP_BUSY / SLOWED_BY
    clock = 1 / SLOWED_BY if slowed and gpu == STRAGGLER else 1.0
    if progress < computes:
        return GpuLoad(busy=1.0, effort=0.92 * clock**2, memory_traffic=0.5 * clock, clock=clock)
    if progress < STEP_BUSY:
        return GpuLoad(busy=1.0, effort=0.2, memory_traffic=0.03)
    return GpuLoad(busy=0.15, effort=0.1, memory_traffic=0.05)


def data_parallel_host(second: float) -> HostLoad:
    """Simulate loaders that keep up; a checkpoint of tens of gigabytes now and then."""
    if in_checkpoint(second):
        return HostLoad(cores=1.2, mem_bytes=60 * GIB, write_bytes_per_s=1.9e9)
    return HostLoad(cores=9, mem_bytes=60 * GIB, read_bytes_per_s=2.2e8, net_bytes_per_s=9e8)


LEAK_STEP_S, LEAK_START, LEAK_PER_S, LEAK_LIFE_S = 6.0, 34 * GIB, 0.021 * GIB, 2160.0


def leaking(_gpu: int, second: float) -> GpuLoad:
    """Simulate accumulated gradients: five seconds of work, one of an optimizer on the CPU."""
    if second % LEAK_LIFE_S < 20:
        return GpuLoad()  # the process that took its place loads its model
    return (
        GpuLoad(busy=1.0, effort=0.75, memory_traffic=0.42)
        if second % LEAK_STEP_S < 0.83 * LEAK_STEP_S
        else GpuLoad(busy=0.05, effort=0.04)
    )


def leaking_memory(_gpu: int, second: float) -> float:
    """Return bytes that grow until the GPU is full, again and again."""
    return LEAK_START + LEAK_PER_S * (second % LEAK_LIFE_S)


def starving(_gpu: int, second: float) -> GpuLoad:
    """Return one second of work, then more than two of waiting for the next batch."""
    return GpuLoad(busy=1.0, effort=0.7, memory_traffic=0.4) if second % 3.4 < 1.1 else GpuLoad()


def chance(number: int) -> float:
    """Give a number from 0 to 1 that has nothing to do with those of other numbers: a 32-bit hash."""
    mixed = (number * 0x9E3779B1 + 0x7F4A7C15) & 0xFFFFFFFF
    for _ in range(2):
        mixed = ((mixed ^ mixed >> 16) * 0x45D9F3B) & 0xFFFFFFFF
    return (mixed ^ mixed >> 16) / 0xFFFFFFFF


def serving(_gpu: int, second: float) -> GpuLoad:
    """Simulate requests in waves of twenty minutes; in a wave they come by chance, at times many at once."""
    wave = 0.42 + 0.28 * math.sin(2 * math.pi * second / 1200)
    crowd, request = chance(int(second / 7)), chance(1_000_003 + int(3 * second))
    busy = min(max(wave + 0.35 * (crowd - 0.5) + 0.5 * (request - 0.5), 0.02), 0.98)
    return GpuLoad(busy=busy, effort=0.6 * busy, memory_traffic=0.35 * busy)


def serving_host(second: float) -> HostLoad:
    """Simulate a server to which requests come and whose answers go over the network."""
    busy = serving(0, second).busy
    return HostLoad(cores=0.4 + 3 * busy, mem_bytes=14 * GIB, net_bytes_per_s=2.4e7 * busy)


WORKLOADS = (
    DemoWorkload(
        namespace="ml", name="llama-sft-worker", owner_api="kubeflow.org/v1",
        owner_kind="PyTorchJob", owner="llama-sft", gpus=((0, 1), (2, 3)), load=data_parallel,
        gpu_memory=lambda gpu, _: (66 + 0.4 * gpu) * GIB, host=data_parallel_host, team="nlp",
        image="registry.example/llama-sft:3", cpu_request=16, steps=finished_steps,
    ),
    DemoWorkload(
        namespace="ml", name="bert-leak", owner_api="batch/v1", owner_kind="Job", owner="bert-leak",
        gpus=((4,),), load=leaking, gpu_memory=leaking_memory,
        host=lambda _: HostLoad(cores=5, mem_bytes=22 * GIB, read_bytes_per_s=6e7), team="nlp",
        image="registry.example/bert:7", cpu_request=8, life_s=LEAK_LIFE_S,
    ),
    DemoWorkload(
        namespace="ml", name="resnet-starved", owner_api="batch/v1", owner_kind="Job", owner="resnet-starved",
        gpus=((7,),), load=starving, gpu_memory=lambda *_: 18 * GIB,
        host=lambda _: HostLoad(cores=2, mem_bytes=9 * GIB, throttled_pct=61, read_bytes_per_s=4.5e7),
        team="vision", image="registry.example/resnet:12", cpu_request=2,
    ),
    DemoWorkload(
        namespace="web", name="chat-api", owner_api="apps/v1", owner_kind="Deployment", owner="chat-api",
        gpus=((5,),), load=serving, gpu_memory=lambda *_: 61 * GIB, host=serving_host, team="product",
        image="registry.example/chat:41", cpu_request=4,
    ),
    DemoWorkload(
        namespace="research", name="notebook", owner_api="apps/v1", owner_kind="StatefulSet",
        owner="notebook", gpus=((6,),), load=lambda *_: GpuLoad(), gpu_memory=lambda *_: 22 * GIB,
        host=lambda _: HostLoad(), team="research", image="registry.example/jupyter:2", cpu_request=4,
    ),
)  # fmt: skip
