"""What is found about GPUs, on its way to their nodes: one part for each GPU, nothing lost, nothing early."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from contract.codec import decode
from contract.log import TopicPartition
from contract.records.derived import Cycle, Trend, WindowAggregate, gpu_subject, node_subject
from contract.records.parts import NodePart
from sinks.dispatcher import Dispatcher
from sinks.node_news import NodeNews
from sinks.node_news_sink import NodeNewsSink
from tests.support.sinks.made import cycle, trend, window
from tests.support.sinks.rig import Rig, until

PLACE = TopicPartition("cycles", 0)


def news(*records: Cycle | Trend | WindowAggregate) -> list[NodePart]:
    """The parts that the records make."""
    found = NodeNews()
    for offset, record in enumerate(records):
        found.take(record, PLACE, offset)
    return found.cut()[0]


def test_all_that_is_found_about_a_gpu_is_one_part_and_the_newest_wins() -> None:
    (part,) = news(
        cycle(True, 7.0), cycle(True, 13.2), trend(2.0), trend(-0.5),
        window("gpu_util_pct", 80, 60_000), window("gpu_util_pct", 90, 120_000),
        window("gpu_util_pct", 10, 180_000), window("mem_copy_util_pct", 5, 60_000),
    )  # fmt: skip
    assert part == NodePart(
        node="gpu-a", gpu="GPU-1", ts_ms=180_000, cyclic=True, period_s=13.2, slope_per_s=-0.5,
        maxima={"gpu_util_pct": 90, "mem_copy_util_pct": 5},
    )  # fmt: skip


def test_what_nothing_was_found_about_is_absent() -> None:
    assert news(cycle(False)) == [NodePart(node="gpu-a", gpu="GPU-1", ts_ms=1, cyclic=False)]
    assert news(cycle(True, 7.0), cycle(False))[0].period_s is None


def test_what_is_no_business_of_an_annotation_is_passed_over() -> None:
    found = NodeNews()
    host = Cycle(subject=node_subject("gpu-a"), metric="gpu_util_pct", ts_ms=1, cyclic=True, period_s=1)
    for record in (window("temp_c", 61), cycle(True, 5, metric="power_w"), trend(1, metric="temp_c"), host):
        found.take(record, PLACE, 0)
    assert found.held.empty
    assert found.cut()[0] == []


def test_a_cut_hands_over_and_begins_anew() -> None:
    found = NodeNews()
    found.take(cycle(True, 7.0), PLACE, 4)
    found.take(trend(1.0), TopicPartition("trends", 1), 9)
    parts, held = found.cut()
    assert len(parts) == 1
    assert (held.lowest(PLACE), held.lowest(TopicPartition("trends", 1))) == (4, 9)
    assert found.held.empty
    found.take(trend(2.0), TopicPartition("trends", 1), 10)
    assert found.cut()[0] == [NodePart(node="gpu-a", gpu="GPU-1", ts_ms=1, slope_per_s=2.0)]


@asynccontextmanager
async def sending(rig: Rig) -> AsyncIterator[tuple[Dispatcher, NodeNewsSink]]:
    """The sink behind a dispatcher, sending ten times a second."""
    sink = NodeNewsSink(partial(rig.port.send, "node-parts"), 0.3, rig.port.fail)
    task = asyncio.create_task(sink.run())
    try:
        yield rig.dispatcher(sink), sink
    finally:
        task.cancel()


async def test_records_are_acknowledged_once_the_broker_has_the_part() -> None:
    rig = Rig()
    async with sending(rig) as (dispatcher, sink):
        await dispatcher.handle(rig.origin("cycles", cycle(True, 7.0), key="gpu/gpu-a/GPU-1"))
        await dispatcher.handle(rig.origin("trends", trend(1.0), key="gpu/gpu-a/GPU-1"))
        dispatcher.acknowledge()
        assert rig.port.acknowledged == {}
        await until(lambda: sink.pending_offsets().empty)
        dispatcher.acknowledge()
    ((topic, key, payload, ts_ms),) = rig.port.sent
    assert (topic, key, ts_ms) == ("node-parts", "gpu-a", 1)
    assert decode(NodePart, payload, "node-parts").period_s == 7.0
    assert rig.port.acknowledged == {("cycles", 0): 0, TopicPartition("trends", 0): 0}


async def test_pods_and_nodes_are_not_even_decoded() -> None:
    rig = Rig()
    async with sending(rig) as (dispatcher, sink):
        for key in ("pod/x", "node/gpu-a", "job/y"):
            assert not sink.wants(rig.origin("trends", b"{", key=key))
        assert not sink.wants(rig.origin("trends", None, key="gpu/gpu-a/GPU-1"))
        await dispatcher.handle(rig.origin("trends", b"poison", key="gpu/gpu-a/GPU-1"))
    assert rig.port.dead_letters[0]["reason"] == "decode"


async def test_what_is_handed_over_is_sent_first() -> None:
    rig = Rig()
    sink = NodeNewsSink(partial(rig.port.send, "node-parts"), 3600, rig.port.fail)
    dispatcher = rig.dispatcher(sink)
    await dispatcher.handle(rig.origin("cycles", cycle(True, 7.0), key="gpu/gpu-a/GPU-1"))
    await dispatcher.drain()
    assert len(rig.port.sent) == 1
    assert rig.port.acknowledged == {("cycles", 0): 0}
    dispatcher.forget()
    assert sink.pending_offsets().empty


@pytest.mark.parametrize("count", [1, 1200])
async def test_a_broker_that_refuses_ends_the_worker_and_nothing_counts_as_done(count: int) -> None:
    rig = Rig()

    async def refuse(key: str, payload: bytes, ts_ms: int) -> None:
        raise ConnectionError("the broker is gone")

    sink = NodeNewsSink(refuse, 0.3, rig.port.fail)
    dispatcher = rig.dispatcher(sink)
    task = asyncio.create_task(sink.run())
    for i in range(count):
        record = Cycle(subject=gpu_subject("gpu-a", f"GPU-{i}"), metric="gpu_util_pct", ts_ms=1, cyclic=False)
        await dispatcher.handle(rig.origin("cycles", record, key=f"gpu/gpu-a/GPU-{i}"))
    await until(lambda: rig.port.failures)
    dispatcher.acknowledge()
    assert rig.port.acknowledged == {}
    assert not sink.pending_offsets().empty
    task.cancel()
