"""Nodes that fall silent while others go on: their last windows come, whatever happens to workers."""

from collections import Counter
from itertools import groupby
from typing import Any

import orjson
import pytest

from dutycycle.contract.log import ConsumerRecord, ProducerRecord
from dutycycle.contract.settings.load import load
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.data.samples import gpu, nvml
from tests.support.fakes.broker import Broker
from tests.support.streams.port import Died, Worker

NVML = next(one for one in stages(load({})) if one.name == "nvml")
OPEN_S = 160
"""A minute's window that has just begun ends after one minute, the next one after two; and 40 seconds."""
Windows = dict[tuple[str, int, int], Any]


def sample(node: str, second: int, *, partition: int = 0, offset: int = 0) -> ConsumerRecord:
    plain = nvml(second, [gpu(0, gpu_util_pct=second % 7, energy_j=5.0 * second)], node=node)
    return ConsumerRecord("nvml-samples", partition, offset, node, orjson.dumps(plain), 1000 * second)


def log(*parts: tuple[str, range], partitions: dict[str, int] | None = None) -> list[ConsumerRecord]:
    """Seconds of nodes, in the order of time."""
    records, offsets = [], Counter[int]()
    for second, node in sorted((second, node) for node, seconds in parts for second in seconds):
        partition = (partitions or {}).get(node, 0)
        records.append(sample(node, second, partition=partition, offset=offsets[partition]))
        offsets[partition] += 1
    return records


def windows(outs: list[ProducerRecord]) -> Windows:
    """The newest record of each."""
    plain = [(one.key, orjson.loads(one.value or b"")) for one in outs if one.topic == "window-aggregates"]
    return {(key, of["size_ms"], of["start_ms"]): of["metrics"] for key, of in plain}


def of_node(node: str, found: Windows) -> Windows:
    return {name: one for name, one in found.items() if name[0].startswith(f"gpu/{node}/")}


def replayed(records: list[ConsumerRecord]) -> Windows:
    local = LocalPipeline([NVML])
    return windows([out for one in records for out in local.feed(one)] + local.close())


async def work(worker: Worker, records: list[ConsumerRecord], every: int = 20) -> None:
    for first in range(0, len(records), every):
        for _, some in groupby(records[first : first + every], key=lambda one: one.partition):
            await worker.take(*some)
        await worker.commit()


@pytest.mark.parametrize("partitions", [{}, {"gone": 1}], ids=["one partition", "alone in its partition"])
async def test_the_last_windows_of_a_node_that_is_gone_are_those_of_a_replay(
    partitions: dict[str, int],
) -> None:
    records = log(("gone", range(95)), ("here", range(95 + OPEN_S)), partitions=partitions)
    worker = Worker(Broker(), stage=NVML)
    await work(worker, records)
    await worker.commit()
    assert of_node("gone", windows(worker.port.broker.outputs)) == of_node("gone", replayed(records))


async def test_a_node_that_is_not_overdue_has_its_windows_open() -> None:
    worker = Worker(Broker(), stage=NVML)
    await work(worker, log(("gone", range(95)), ("here", range(130))))
    sent = of_node("gone", windows(worker.port.broker.outputs))
    assert max(start + size for _, size, start in sent) == 80_000


async def test_what_was_sent_is_not_sent_again_and_a_node_that_goes_on_is_never_asked() -> None:
    worker = Worker(Broker(), stage=NVML)
    await work(worker, log(("gone", range(95)), ("here", range(600))))
    names = [(one.key, one.value) for one in worker.port.broker.outputs if one.topic == "window-aggregates"]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("back", [100, 150, 200, 300])
async def test_a_node_that_comes_back_has_its_windows_whole(back: int) -> None:
    """It was cut off, and brings what it has measured in the meantime, late."""
    records = log(("here", range(back)), ("cut-off", range(65)))
    brought = [sample("cut-off", second, offset=back + second) for second in range(65, 200)]
    worker = Worker(Broker(), stage=NVML)
    await work(worker, records)
    await work(worker, brought)
    sent = of_node("cut-off", windows(worker.port.broker.outputs))
    whole = of_node("cut-off", replayed(records + brought))
    assert sent == {name: whole[name] for name in sent}
    assert ("gpu/cut-off/GPU-0", 60_000, 60_000) in sent


@pytest.mark.parametrize("partitions", [{}, {"gone": 1}], ids=["one partition", "alone in its partition"])
@pytest.mark.parametrize("kind", ["post", "arrived-output", "arrived-head", "arrived-clock", "acknowledge"])
async def test_a_worker_that_dies_leaves_them_to_the_next_one(kind: str, partitions: dict[str, int]) -> None:
    """At each such step of the commits in which they become overdue, and later."""
    records = log(("gone", range(15)), ("here", range(15 + OPEN_S)), partitions=partitions)
    wanted, step, died = of_node("gone", replayed(records)), 0, True
    while died:
        broker, died = Broker(), False
        worker = Worker(broker, stage=NVML, dies=lambda name, before: name == kind and before == step)  # noqa: B023
        try:
            await work(worker, records)
        except (Died, BaseExceptionGroup):
            died = True
        after = Worker(broker, stage=NVML)
        after.coordinator.begin()
        unread = [one for one in records if one.offset >= broker.committed.get(one.topic_partition, 0)]
        await work(after, unread)
        await after.commit()
        await after.commit()
        assert of_node("gone", windows(broker.outputs)) == wanted, f"died at {kind} {step}"
        step += 7
    assert step > 7
