"""A node whose load does not change is written once an hour, whatever its cycle and its noise."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from dutycycle.contract.codec import decode, encode
from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.records.parts import NodePart
from dutycycle.contract.records.samples import Gpu, GpuProcess, NvmlSample
from dutycycle.kube.client import Client
from dutycycle.kube.config import Access
from dutycycle.kube.objects import ApiServer
from dutycycle.kube.references import ObjectRef, Patch
from sinks.annotations.core.schedule import CALM, MOST_DAMPED, Damping, WritePolicy
from sinks.annotations.sink import SAMPLE_SHARE
from streams.operators.columns.nvml import NvmlReader
from streams.operators.node.operator import NodeConfig, NodeOperator
from tests.support.sinks.made import K80, node_part, sample
from tests.support.sinks.queueless import QueuelessSink
from tests.support.targets import slow_after

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


HOUR_S = 3600
KNOWN_S = 600
"""By then the cycles are found, and the maxima are reached."""
INTERVAL_S = 30.0
NODES: dict[str, list[Load]] = {
    "square waves": [square(period_s) for period_s in (5, 11, 15, 30, 60, 120)],
    "noisy waves": [wave(period_s) for period_s in (7, 13, 20, 45, 75, 110)],
    "no cycle": [flat(60, 2), flat(98, 1), flat(30, 10), flat(0, 0)],
}


@pytest.mark.parametrize("loads", slow_after(0, NODES.values()), ids=NODES.keys())
async def test_after_ten_minutes_there_are_two_writes_an_hour_at_most(loads: list[Load]) -> None:
    seconds = [write.second for write in await writes_of_node(loads, 2 * HOUR_S)]
    assert 1 <= sum(second < KNOWN_S for second in seconds) <= 7, seconds
    later = [second for second in seconds if second >= KNOWN_S]
    assert later, "it is refreshed"
    assert all(sum(0 <= other - first < HOUR_S for other in later) <= 2 for first in later), later


async def test_noise_delays_no_news() -> None:
    """Slope, cycle and memory are noise from the beginning; then the only process ends."""
    server = WrittenNode()
    sink = QueuelessSink(server, WritePolicy())
    chance = random.Random(0)  # noqa: S311 - a load, no secret
    for second in range(0, 2 * HOUR_S + 100, 10):
        processes = K80.processes if second < 2 * HOUR_S else ()
        used = chance.uniform(2e9, 11e9)
        server.second = second
        part = node_part(cyclic=chance.random() < 0.5, slope_per_s=chance.gauss(0, 1))
        for record in (sample(replace(K80, mem_used_bytes=used, processes=processes)), part):
            sink.take(record, second)
            await sink.write(second)
    seconds = [write.second for write in server.writes]
    noise = [second for second in seconds if second < 2 * HOUR_S]
    assert noise[:5] == [0, 30, 60, 120, 240]
    assert sum(second >= HOUR_S for second in noise) <= 1
    assert 2 * HOUR_S in seconds


def test_each_further_change_waits_twice_as_long() -> None:
    damping, last, now, waits = Damping(), 0.0, 0.0, []
    for _ in range(10):
        damping.note_written({"a"}, now, INTERVAL_S)
        wait = next(s for s in range(1000) if not damping.waiting(s * INTERVAL_S, INTERVAL_S))
        waits.append(wait)
        last, now = now, now + wait * INTERVAL_S
    assert waits == [1, 2, 4, 8, 16, 32, 64, MOST_DAMPED, MOST_DAMPED, MOST_DAMPED]
    damping.note_written((), last + (CALM - 1) * INTERVAL_S, INTERVAL_S)
    assert damping.waiting(INTERVAL_S, INTERVAL_S) == {"a"}
    damping.note_written((), last + CALM * INTERVAL_S, INTERVAL_S)
    assert damping.waiting(0, INTERVAL_S) == set(), "it was calm for long enough"


def test_one_figure_waits_and_the_others_do_not() -> None:
    damping = Damping()
    for now in (0.0, 30.0, 90.0):
        damping.note_written({"noise"}, now, INTERVAL_S)
    assert damping.waiting(60.0, INTERVAL_S) == {"noise"}
    assert damping.waiting(120.0, INTERVAL_S) == set()
