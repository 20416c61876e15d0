"""Producer and consumer over the wire."""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from aiokafka.consumer.fetcher import OffsetResetStrategy

from dutycycle.contract.errors import DutycycleError
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.kafka.clients import new_consumer, partition
from dutycycle.kafka.consumer import Consumer, Start
from dutycycle.kafka.errors import BrokerUnreachableError, RecordRefusedError
from dutycycle.kafka.producer import Producer
from dutycycle.kafka.topics import topics_there
from tests.support.fakes.interruptible_broker import InterruptibleBroker
from tests.support.turns import Begin, cancelled_at_each_turn

TOPIC = "dutycycle.pods"


async def send(settings: Settings, count: int, *, compression: str = "zstd") -> None:
    producer = Producer(settings, "test", compression=compression)
    await producer.start()
    sent = [await producer.send(TOPIC, f"k{n % 5}", str(n).encode(), 1000 + n) for n in range(count)]
    await producer.settle(sent)
    await producer.stop()


async def read(settings: Settings, start: Start, count: int) -> list[ConsumerRecord]:
    consumer = Consumer(settings, "test", [TOPIC], start)
    await consumer.start()
    found: list[ConsumerRecord] = []
    end = time.monotonic() + 120
    while len(found) < count or not await consumer.reached(await consumer.ends()):
        assert time.monotonic() < end, f"only {len(found)} of {count} records came"
        found += await consumer.take(0.5)
    await consumer.stop()
    return found


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
async def test_order_per_key_and_timestamps(settings: Settings, compression: str) -> None:
    await send(settings, 100, compression=compression)
    found = await read(settings, "beginning", 100)
    for key in {one.key for one in found}:
        own = [one for one in found if one.key == key]
        assert [one.ts_ms for one in own] == sorted(one.ts_ms for one in own)
        assert len({one.partition for one in own}) == 1
    assert sorted((one.ts_ms, one.value) for one in found) == [
        (1000 + n, str(n).encode()) for n in range(100)
    ]


@pytest.mark.parametrize(
    ("start", "first"), [("beginning", 0), (1040, 40), (1099, 99), (5000, 100), ("end", 100)]
)
async def test_places_to_begin(settings: Settings, start: Start, first: int) -> None:
    await send(settings, 100)
    found = await read(settings, start, 100 - first)
    assert sorted(one.ts_ms - 1000 for one in found) == list(range(first, 100))


async def test_a_tombstone_has_no_payload(settings: Settings) -> None:
    producer = Producer(settings, "test")
    await producer.start()
    await producer.settle([await producer.send(TOPIC, "gone", None, 5)])
    await producer.stop()
    assert [(one.key, one.value) for one in await read(settings, "beginning", 1)] == [("gone", None)]


async def test_a_missing_topic_is_named_and_not_created(settings: Settings) -> None:
    for _ in range(2):
        consumer = Consumer(settings, "test", ["dutycycle.trends"], "beginning")
        with pytest.raises(DutycycleError, match=r"no topic dutycycle\.trends"):
            await consumer.start()


async def test_a_record_over_every_limit_is_refused_alone(settings: Settings) -> None:
    producer = Producer(settings, "test")
    await producer.start()
    with pytest.raises(RecordRefusedError):
        await producer.send(TOPIC, "k", b"x" * 9_000_000, 1)
    await producer.settle([await producer.send(TOPIC, "k", b"good", 2)])
    await producer.stop()


async def test_starting_without_a_broker_fails_at_once(
    settings: Settings, broker: InterruptibleBroker
) -> None:
    broker.stop()
    with pytest.raises(BrokerUnreachableError):
        await Producer(settings, "test").start()


async def live_admin(settings: Settings, begin: Begin) -> None:
    begin()
    await topics_there(settings, [])


async def live_producer(settings: Settings, begin: Begin) -> None:
    begin()
    producer = Producer(settings, "test")
    await producer.start()
    try:
        await producer.send(TOPIC, "key", b"value", 5)
    finally:
        await producer.stop()


async def live_consumer(settings: Settings, begin: Begin) -> None:
    consumer = Consumer(settings, "test", [TOPIC], "end")
    await consumer.start()
    begin()  # its start is slow, and ends as it does
    await consumer.stop()


@pytest.mark.parametrize("life", [live_admin, live_producer, live_consumer])
def test_a_cancellation_at_any_turn_is_heard_and_leaves_no_connection(
    settings: Settings, life: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver swallows one that comes as it ends its own parts, and one cuts short how it disconnects."""
    connect, connections = AIOKafkaConnection.connect, []

    async def connect_noted(connection: AIOKafkaConnection) -> Any:
        connections.append(connection)
        return await connect(connection)

    monkeypatch.setattr(AIOKafkaConnection, "connect", connect_noted)
    turns = 0
    for turns, task in enumerate(cancelled_at_each_turn(partial(life, settings)), 1):
        assert task.cancelled(), f"lost at turn {turns}"
        assert not any(connection.connected() for connection in connections), f"left at turn {turns}"
        connections.clear()
    assert turns > 3


async def test_a_broker_that_answers_no_more_is_noticed(
    settings: Settings, broker: InterruptibleBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While there is nothing to read its answers are empty, and it is not silent."""
    monkeypatch.setattr("dutycycle.kafka.consumer._SILENT_S", 1.0)
    consumer = Consumer(settings, "test", [TOPIC], "end")
    await consumer.start()
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert await consumer.take(0.2) == []
    assert consumer._answered_s > end - 1.5, "since then there were empty answers alone"
    broker.set_down()

    async def wait_in_silence() -> None:
        while True:
            assert await consumer.take(0.2) == []
            consumer.refuse_silence()

    with pytest.raises(BrokerUnreachableError, match="no answer for 1 s"):
        await asyncio.wait_for(wait_in_silence(), 240)
    await consumer.stop()


async def test_stop_and_abort_are_bounded_while_the_broker_is_away(
    settings: Settings, broker: InterruptibleBroker
) -> None:
    producer = Producer(settings, "test")
    await producer.start()
    await producer.settle([await producer.send(TOPIC, "k", b"1", 1)])
    broker.set_down()
    pending = await producer.send(TOPIC, "k", b"2", 2)
    began = time.monotonic()
    with pytest.raises(BrokerUnreachableError, match="not all was acknowledged"):
        await producer.stop(0.5)
    assert time.monotonic() - began < 30
    with pytest.raises(BrokerUnreachableError):
        await producer.settle([pending])


async def test_a_consumer_stops_while_it_waits_to_fetch_again(
    settings: Settings, broker: InterruptibleBroker, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = Consumer(settings, "test", [TOPIC], "end")
    with caplog.at_level(logging.ERROR, logger="aiokafka"):
        await consumer.start()
        driver = consumer._driver
        driver._fetcher._retry_backoff = 600
        broker.set_down()
        async with asyncio.timeout(240):
            while "Failed fetch messages" not in caplog.text:
                await consumer.take(0.1)
    await consumer.stop()
    assert not driver._client._conns


async def test_the_first_record_of_a_topic_waits_for_a_broker_that_is_away(
    settings: Settings, broker: InterruptibleBroker
) -> None:
    """Who restarts in an outage has sent nothing to most of its topics yet: they are not missing."""
    producer = Producer(settings, "test")
    await producer.start()
    producer._driver.client._request_timeout_ms = 100
    broker.set_down()
    sending = asyncio.create_task(producer.send(TOPIC, "k", b"1", 1))
    await asyncio.wait({sending}, timeout=0.6)
    assert not sending.done()
    broker.set_up()
    await producer.settle([await asyncio.wait_for(sending, 240)])
    await producer.stop()
    assert [record.value for record in await read(settings, "beginning", 1)] == [b"1"]


async def test_an_outage_is_outlasted_without_a_duplicate(
    settings: Settings, broker: InterruptibleBroker
) -> None:
    producer = Producer(settings, "test")
    await producer.start()
    await producer.settle([await producer.send(TOPIC, "k", b"1", 1)])
    broker.set_down()
    pending = [await producer.send(TOPIC, "k", str(n).encode(), n) for n in (2, 3)]
    broker.set_up()
    await producer.settle(pending)
    await producer.stop()
    assert [one.value for one in await read(settings, "beginning", 3)] == [b"1", b"2", b"3"]


async def test_what_is_missing_in_one_answer_of_a_broker_is_read_on_where_it_was() -> None:
    settings = load_settings({"DUTYCYCLE_BROKER": "kafka://127.0.0.1:1"})
    driver = new_consumer(settings, "test", "pods", "usage", reset="latest")
    subscription = driver._subscription
    pods, usage, added = (partition(*place) for place in (("pods", 0), ("usage", 0), ("pods", 1)))

    def state(place: Any) -> Any:
        return subscription.subscription.assignment.state_value(place)

    try:
        subscription.assign_from_subscribed({pods, usage})
        assert not state(pods).awaiting_reset, "at first it begins where it is told"
        for place, offset in ((pods, 7), (usage, 9)):
            state(place).seek(offset)
        driver.pause(usage)
        subscription.assign_from_subscribed({pods})
        state(pods).consumed_to(8)
        subscription.assign_from_subscribed({pods, usage, added})
        kept = [(state(place).position, state(place).paused) for place in (pods, usage)]
        assert kept == [(8, False), (9, True)]
        assert state(added).reset_strategy == OffsetResetStrategy.EARLIEST
    finally:
        await driver.stop()
