"""What Faust's producer sends, and what it no longer sends."""

import asyncio
import gc
import os
import weakref
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.producer.sender import SendProduceReqHandler
from aiokafka.structs import TopicPartition as AiokafkaPartition

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.faust.app import ExactApp, create_app
from dutycycle.telemetry.events import Telemetry
from dutycycle.telemetry.watchdog import StallDetector
from tests.support.waiting import until

TOPIC = "dutycycle.trends"
LIMIT_S = 5.0


@pytest.fixture
def settings() -> Iterator[Settings]:
    with EmbeddedBroker({TOPIC: 1}) as broker:
        yield load({}, {"broker": broker.url})


async def stored(settings: Settings) -> list[bytes | None]:
    """What lies on the topic now."""
    reader, found = Consumer(settings, "test", [TOPIC], "beginning"), []
    await reader.start()
    ends = await reader.ends()
    while not await reader.reached(ends):
        found += [message.value for message in await reader.take()]
    await reader.stop()
    return found


@asynccontextmanager
async def producing(settings: Settings) -> AsyncIterator[ExactApp]:
    app = create_app(settings, "test", Telemetry("test"))
    await app.exact_producer.start()
    yield app
    await app.exact_producer.stop()


async def test_what_waited_in_line_through_a_standstill_is_not_sent(settings: Settings) -> None:
    now_s = 100.0
    async with producing(settings) as app:
        detector = app.telemetry.stall_detector = StallDetector(clock=lambda: now_s)
        detector.process_limit_s = LIMIT_S
        detector.beat()
        await (await app.exact_producer.post(TOPIC, b"k", b"before", ts_ms=1))
        waiting = await app.exact_producer.post(TOPIC, b"k", b"old", ts_ms=2)
        now_s += LIMIT_S + 1  # stopped before the line moved, and continued
        await asyncio.wait_for(app.failed.wait(), 120)
        assert app.failure == "the process stalled for too long"
        await asyncio.wait([waiting], timeout=0.5)
        assert not waiting.done()
    assert await stored(settings) == [b"before"]


async def test_nothing_is_sent_while_others_may_own_the_partitions_and_all_of_it_once_we_are_counted_in(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with producing(settings) as app:
        await (await app.exact_producer.post(TOPIC, b"k", b"before", ts_ms=1))
        monkeypatch.setattr(app.exact_consumer, "may_be_replaced", lambda: True)
        waiting = await app.exact_producer.post(TOPIC, b"k", b"late", ts_ms=2)
        await asyncio.wait([waiting], timeout=0.5)
        assert not waiting.done()
        monkeypatch.undo()
        await asyncio.wait_for(waiting, 120)
        assert app.failure is None
    assert await stored(settings) == [b"before", b"late"]


@pytest.mark.parametrize("stopping", [False, True])
async def test_what_waited_until_others_owned_the_partitions_is_never_sent(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, stopping: bool
) -> None:
    async with producing(settings) as app:
        consumer: Any = app.exact_consumer
        await (await app.exact_producer.post(TOPIC, b"k", b"before", ts_ms=1))
        monkeypatch.setattr(consumer, "may_be_replaced", lambda: True)
        waiting = await app.exact_producer.post(TOPIC, b"k", b"old", ts_ms=2)
        if stopping:
            app._stopped.set()
        monkeypatch.setattr(consumer, "is_counted_out", lambda: True)
        if not stopping:
            await asyncio.wait_for(app.failed.wait(), 120)
        await asyncio.wait([waiting], timeout=0.5)
        assert not waiting.done()
        reason = "the group counted this worker out while it had records to send"
        assert app.failure == (None if stopping else reason), "who ends leaves the group: that is no failure"
    assert await stored(settings) == [b"before"]


async def test_what_waited_in_line_for_a_moment_is_sent(settings: Settings) -> None:
    now_s = 100.0
    async with producing(settings) as app:
        detector = app.telemetry.stall_detector = StallDetector(clock=lambda: now_s)
        detector.process_limit_s = LIMIT_S
        detector.beat()
        waiting = await app.exact_producer.post(TOPIC, b"k", b"new", ts_ms=2)
        now_s += LIMIT_S - 1
        await asyncio.wait_for(waiting, 120)
    assert await stored(settings) == [b"new"]


async def test_records_of_a_batch_have_one_answer_and_keep_their_order(settings: Settings) -> None:
    async with producing(settings) as app:
        producer = app.exact_producer
        assert producer.append(TOPIC, b"k", b"0", ts_ms=1) is None, "of a topic that is new nothing is known"
        await (await producer.post(TOPIC, b"k", b"0", ts_ms=1))
        answers = {producer.append(TOPIC, b"k", b"%d" % n, ts_ms=1) for n in range(1, 100)}
        (answer,) = answers
        assert answer is not None
        await asyncio.wait_for(answer, 120)
    assert await stored(settings) == [b"%d" % n for n in range(100)]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no record go because it has waited for long."""
    monkeypatch.setattr("dutycycle.kafka.faust.producer._LONGEST_WAIT_S", 600.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("urgent", [False, True])
async def test_records_gather_until_they_are_released_or_one_is_urgent(
    settings: Settings, urgent: bool
) -> None:
    async with producing(settings) as app:
        producer = app.exact_producer
        await (await producer.post(TOPIC, b"k", b"0", ts_ms=1))  # at once: no request was before it
        answers = []
        for number in range(1, 20):
            answers.append(await producer.post(TOPIC, b"k", b"%d" % number, ts_ms=1))
            await asyncio.sleep(0.01)
        assert not any(answer.done() for answer in answers)
        if urgent:
            answers.append(await producer.post(TOPIC, b"k", b"20", ts_ms=1, urgent=True))
        else:
            producer.release()
        await asyncio.wait_for(asyncio.gather(*answers), 120)
    assert await stored(settings) == [b"%d" % number for number in range(20 + urgent)]


async def test_nobody_has_to_release_what_has_waited_for_long(settings: Settings) -> None:
    async with producing(settings) as app:
        for number in range(5):
            answer = await app.exact_producer.post(TOPIC, b"k", b"%d" % number, ts_ms=1)
            await asyncio.wait_for(answer, 120)
    assert await stored(settings) == [b"%d" % number for number in range(5)]


@pytest.mark.usefixtures("patient")
async def test_what_is_released_while_a_request_is_on_its_way_goes_with_the_next(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_its_way, answer_it = asyncio.Event(), asyncio.Event()
    do = SendProduceReqHandler.do

    async def do_slowly(handler: Any, node_id: int) -> None:
        on_its_way.set()
        await answer_it.wait()
        await do(handler, node_id)

    monkeypatch.setattr(SendProduceReqHandler, "do", do_slowly)
    async with producing(settings) as app:
        producer = app.exact_producer
        first = await producer.post(TOPIC, b"k", b"0", ts_ms=1)
        await asyncio.wait_for(on_its_way.wait(), 120)
        second = await producer.post(TOPIC, b"k", b"1", ts_ms=1)
        producer.release()
        answer_it.set()
        await asyncio.wait_for(asyncio.gather(first, second), 120)
    assert await stored(settings) == [b"0", b"1"]


async def test_what_has_arrived_is_kept_no_longer(settings: Settings) -> None:
    async with producing(settings) as app:
        producer = app.exact_producer
        await (await producer.post(TOPIC, b"k", b"0", ts_ms=1))
        lines: Any = producer._ensure_producer()
        gc.disable()
        try:
            answer = await producer.post(TOPIC, b"k", bytes(100_000), ts_ms=1)
            (batch,) = map(weakref.ref, lines._message_accumulator._batches[AiokafkaPartition(TOPIC, 0)])
            await asyncio.wait_for(answer, 120)
            await (await producer.post(TOPIC, b"k", b"2", ts_ms=1))  # frees the request before it
            await until(lambda: batch() is None)
        finally:
            gc.enable()


class FailingRequests:
    """Has requests to ``node`` (None: to any) fail while ``failing`` is set, as if it were away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, node: int | None = None) -> None:
        self.failing = False
        self.on_its_way = asyncio.Event()
        self.fail = asyncio.Event()
        do = SendProduceReqHandler.do

        async def do_or_fail(handler: Any, node_id: int) -> None:
            if not self.failing or node not in (None, node_id):
                await do(handler, node_id)
                return
            self.on_its_way.set()
            await self.fail.wait()
            for batch in handler._batches.values():
                handler._sender._message_accumulator.reenqueue(batch)

        monkeypatch.setattr(SendProduceReqHandler, "do", do_or_fail)


async def test_what_waits_behind_a_request_that_is_tried_again_goes_soon_after_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = FailingRequests(monkeypatch)
    async with producing(settings) as app:
        producer = app.exact_producer
        await (await producer.post(TOPIC, b"k", b"0", ts_ms=1))
        requests.failing = True
        first = await producer.post(TOPIC, b"k", b"1", ts_ms=1)
        await asyncio.wait_for(requests.on_its_way.wait(), 120)
        second = await producer.post(TOPIC, b"k", b"2", ts_ms=1)
        producer.release()  # its own, while the request before it is on its way
        requests.failing = False
        requests.fail.set()
        await asyncio.wait_for(asyncio.gather(first, second), 120)
    assert await stored(settings) == [b"0", b"1", b"2"]


async def test_a_record_goes_to_the_new_leader_though_nobody_sends_anything_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    requests, away = FailingRequests(monkeypatch, node=77), True
    requests.failing = True
    with EmbeddedBroker({TOPIC: 2}) as broker:
        async with producing(load({}, {"broker": broker.url})) as app:
            producer = app.exact_producer
            await (await producer.post(TOPIC, b"k", b"0", ts_ms=1, partition=0))
            client: Any = producer._ensure_producer()
            cluster = client.client.cluster
            node = cluster.leader_for_partition(AiokafkaPartition(TOPIC, 0))
            monkeypatch.setattr(
                cluster, "leader_for_partition", lambda tp: 77 if away and tp.partition else node
            )
            moved = await producer.post(TOPIC, b"k", b"1", ts_ms=1, partition=1, urgent=True)
            await asyncio.wait_for(requests.on_its_way.wait(), 120)
            await (await producer.post(TOPIC, b"k", b"2", ts_ms=1, partition=0, urgent=True))
            away = False
            requests.fail.set()
            await asyncio.wait_for(moved, 120)


async def test_records_wait_for_no_partition_without_a_leader(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with producing(settings) as app:
        producer = app.exact_producer
        await (await producer.post(TOPIC, b"k", b"0", ts_ms=1))
        client: Any = producer._ensure_producer()
        leaderless = AiokafkaPartition(TOPIC, 77)
        leader = client.client.cluster.leader_for_partition
        monkeypatch.setattr(
            client.client.cluster, "leader_for_partition", lambda tp: -1 if tp == leaderless else leader(tp)
        )
        never = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(client.client, "force_metadata_update", lambda: never)
        lines = client._message_accumulator
        lines._append_batch(lines.create_builder(), leaderless)._builder.append(
            timestamp=1, key=b"k", value=b""
        )
        for number in range(1, 4):
            answer = producer.append(TOPIC, b"k", b"%d" % number, ts_ms=1)
            assert answer is not None
            await asyncio.wait_for(asyncio.shield(answer), 120)
        lines._batches.pop(leaderless)
    assert await stored(settings) == [b"0", b"1", b"2", b"3"]


@pytest.mark.usefixtures("patient")
async def test_nothing_waits_behind_a_batch_that_is_full(settings: Settings) -> None:
    async with producing(settings) as app:
        producer = app.exact_producer
        await (await producer.post(TOPIC, b"k", b"", ts_ms=1))
        answers = []
        for value in (os.urandom(50_000) for _ in range(9)):
            answer = producer.append(TOPIC, b"k", value, ts_ms=1)
            if answer is None:
                answer = await asyncio.wait_for(producer.post(TOPIC, b"k", value, ts_ms=1), 120)
            answers.append(answer)
        producer.release()
        await asyncio.wait_for(asyncio.gather(*answers), 120)
    assert len(await stored(settings)) == 10


async def test_a_batch_that_is_full_takes_no_more(settings: Settings) -> None:
    async with producing(settings) as app:
        producer, value = app.exact_producer, os.urandom(50_000)
        await (await producer.post(TOPIC, b"k", b"", ts_ms=1))
        taken = [producer.append(TOPIC, b"k", value, ts_ms=1) is not None for _ in range(4)]
        assert taken == [True, True, False, False]
        await asyncio.wait_for(await producer.post(TOPIC, b"k", value, ts_ms=1), 120)
    assert await stored(settings) == [b"", value, value, value]


@pytest.mark.parametrize("key", [b"gpu-001", b"x", "päd".encode(), b"00000000-0000-4000-8000-000000000007"])
async def test_a_key_lies_in_one_partition_whichever_way_it_is_sent(key: bytes) -> None:
    with EmbeddedBroker({TOPIC: 7}) as broker:
        async with producing(load({}, {"broker": broker.url})) as app:
            posted = await (await app.exact_producer.post(TOPIC, key, b"1", ts_ms=1))
            appended = app.exact_producer.append(TOPIC, key, b"2", ts_ms=1)
            assert appended is not None
            assert (await asyncio.wait_for(appended, 120)).partition == posted.partition
