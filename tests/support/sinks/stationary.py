"""Nodes under a load that never changes, from the samples to the annotations: how often are they written?

The streams' own operator, and the sink's own decisions; the clock is that of the samples.
"""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.records.samples import Gpu, GpuProcess, NvmlSample
from dutycycle.kube.client import Client
from dutycycle.kube.config import Access
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import ObjectRef, Patch
from sinks.annotations.core.schedule import WritePolicy
from sinks.annotations.sink import SAMPLE_SHARE
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from tests.support.sinks.queueless import QueuelessSink

Load = Callable[[int, random.Random], float]
"""Utilization in percent at a second."""
_FIRST_MS = 1_700_000_000_000
_BYTES = 80_000_000_000


def square(period_s: float, low: float = 10, high: float = 95, noise: float = 0) -> Load:
    """Busy for two thirds of each period."""
    return lambda s, chance: (high if s % period_s < period_s * 2 / 3 else low) + chance.gauss(0, noise)


def wave(period_s: float, mean: float = 55, swing: float = 35, noise: float = 3) -> Load:
    """A sine."""
    return lambda s, chance: mean + swing * math.sin(2 * math.pi * s / period_s) + chance.gauss(0, noise)


def flat(mean: float, noise: float) -> Load:
    """No cycle at all."""
    return lambda _, chance: mean + chance.gauss(0, noise)


@dataclass(frozen=True, slots=True)
class Write:
    """What was patched, and when."""

    second: int
    patch: Patch


class WrittenNode(ApiServer):
    """An API server with one node, that remembers what was written."""

    def __init__(self) -> None:
        super().__init__(Client(Access("memory")))
        self.annotations_now: dict[str, str] = {}
        self.writes: list[Write] = []
        self.second = 0

    async def annotations(self, ref: ObjectRef) -> dict[str, str]:
        """See ``ApiServer``."""
        return dict(self.annotations_now)

    async def annotate(self, ref: ObjectRef, patch: Patch) -> dict[str, str]:
        """See ``ApiServer``."""
        self.writes.append(Write(self.second, patch))
        merged = {**self.annotations_now, **patch}
        self.annotations_now = {key: value for key, value in merged.items() if value is not None}
        return dict(self.annotations_now)


async def writes_of_node(loads: Sequence[Load], seconds: int, seed: int = 0) -> list[Write]:
    """All writes to a node whose GPUs have these loads, from its first sample on."""
    server = WrittenNode()
    sink = QueuelessSink(server, WritePolicy())
    chance = random.Random(seed)  # noqa: S311 - a load, no secret
    operator = NodeOperator(NodeConfig(topic="nvml-samples", source="nvml"), "gpu-a", NvmlReader("gpu-a"))
    every_s = int(WritePolicy().interval_s / SAMPLE_SHARE)
    for second in range(seconds):
        tick = _sample(second, loads, chance)
        out = operator.update(ConsumerRecord("nvml-samples", 0, second, "gpu-a", encode(tick), tick.ts_ms))
        if second % 2 == 0:
            out += operator.flush()
        server.second = second
        if second % every_s == 0:
            sink.take(tick, second)
            await sink.write(second)
        for one in out:
            if isinstance(one, ProducerRecord) and one.topic == "node-parts" and one.value:
                sink.take(decode(NodePart, one.value, "node-parts"), second)
                await sink.write(second)
        await sink.write(second)
    return server.writes


def _sample(second: int, loads: Sequence[Load], chance: random.Random) -> NvmlSample:
    gpus = tuple(
        _gpu(index, round(min(100.0, max(0.0, load(second, chance)))), chance)
        for index, load in enumerate(loads)
    )
    return NvmlSample(
        node="gpu-a", collector="c", seq=second, ts_ms=_FIRST_MS + second * 1000, interval_ms=1000, gpus=gpus
    )


def _gpu(index: int, busy: int, chance: random.Random) -> Gpu:
    used = 30_000_000_000 + chance.randrange(20_000_000)
    return Gpu(
        uuid=f"GPU-{index}", index=index, model="A100", gpu_util_pct=busy, mem_copy_util_pct=busy // 2,
        mem_used_bytes=used, mem_total_bytes=_BYTES, pcie_gen=4, pcie_width=16,
        processes=(GpuProcess(pid=4711 + index, mem_used_bytes=used - 500_000_000),),
    )  # fmt: skip
