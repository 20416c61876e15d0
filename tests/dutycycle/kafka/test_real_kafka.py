"""The same clients on the real Apache Kafka: TLS and SCRAM, wrong credentials, looking up a time."""

import asyncio
import time
from typing import Literal

import pytest
from confluent_kafka.admin import NewPartitions  # type: ignore[attr-defined]

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.kafka.clients import probe
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.errors import BrokerRefusedError, BrokerUnreachableError
from dutycycle.kafka.producer import Producer
from dutycycle.kafka.topics import ensure_topics
from tests.support.servers.kafka.broker import RunningBroker
from tests.support.waiting import wait_until


def load(kafka: RunningBroker, **instead: str) -> Settings:
    values = kafka.settings() | {"DUTYCYCLE_TOPIC_PREFIX": kafka.new_prefix(), "DUTYCYCLE_NODE": "a"}
    return load_settings(values | instead)


async def round_trip(settings: Settings) -> list[tuple[int, bytes | None]]:
    topic = next(iter(await ensure_topics(settings, ["pods"])))
    producer = Producer(settings, "test")
    await producer.start()
    await producer.settle([await producer.send(topic, "k", str(n).encode(), 1000 + n) for n in range(10)])
    await producer.stop()
    consumer = Consumer(settings, "test", [topic], 1004)
    await consumer.start()
    found: list[tuple[int, bytes | None]] = []
    end = time.monotonic() + 240
    while not await consumer.reached(await consumer.ends()):
        assert time.monotonic() < end, "the end was not reached"
        found += [(one.ts_ms, one.value) for one in await consumer.take(0.5)]
    await consumer.stop()
    return found


async def test_round_trip_from_a_time(kafka: RunningBroker) -> None:
    assert await round_trip(load(kafka)) == [(1000 + n, str(n).encode()) for n in range(4, 10)]


async def test_round_trip_by_tls_and_scram(secure_kafka: RunningBroker) -> None:
    assert await round_trip(load(secure_kafka)) == [(1000 + n, str(n).encode()) for n in range(4, 10)]


@pytest.mark.parametrize(
    ("instead", "kind", "reasons"),
    [
        ({"DUTYCYCLE_SASL_PASSWORD": "wrong"}, BrokerRefusedError, {"authentication"}),
        ({"DUTYCYCLE_SASL_MECHANISM": "PLAIN"}, BrokerRefusedError, {"authentication"}),
    ],
)
async def test_a_stranger_is_refused(
    secure_kafka: RunningBroker, instead: dict[str, str], kind: type[Exception], reasons: set[str]
) -> None:
    with pytest.raises(BrokerRefusedError, match="DUTYCYCLE_SASL") as caught:
        await probe(load(secure_kafka, **instead))
    assert caught.value.reason in reasons


async def test_an_untrusted_certificate_is_refused(secure_kafka: RunningBroker) -> None:
    values = {key: value for key, value in secure_kafka.settings().items() if key != "DUTYCYCLE_TLS_CA"}
    with pytest.raises(BrokerRefusedError, match="not trusted") as caught:
        await probe(load_settings(values))
    assert caught.value.reason == "tls"


async def test_no_tls_to_a_tls_port_is_trouble_that_is_said(secure_kafka: RunningBroker) -> None:
    with pytest.raises(BrokerUnreachableError, match=secure_kafka.bootstrap):
        await probe(load_settings({"DUTYCYCLE_BROKER": f"kafka://{secure_kafka.bootstrap}"}))


async def test_a_record_of_a_topic_that_is_gone_fails_and_names_it(kafka: RunningBroker) -> None:
    """Also one that was in line before the producer has heard that the topic is gone."""
    settings = load(kafka)
    topic = next(iter(await ensure_topics(settings, ["pods"])))
    producer = Producer(settings, "test")
    await producer.start()
    await producer.settle([await producer.send(topic, "k", b"1", 1000)])
    admin = kafka.admin()  # named, because it must outlive its futures
    await asyncio.to_thread(admin.delete_topics([topic])[topic].result, 60)
    # The broker may know it later than it answers.
    await asyncio.to_thread(wait_until, lambda: topic not in admin.list_topics(timeout=60).topics)
    sent = [await producer.send(topic, key, b"2", 1000) for key in "abcd"]
    failures = await asyncio.wait_for(producer.failures(sent), 120)
    assert all(str(failure).startswith(f"topic {topic}: the topic does not exist") for failure in failures)
    await producer.stop()


@pytest.mark.parametrize("start", ["end", 0])
async def test_partitions_that_are_added_move_nobody_from_his_place(
    kafka: RunningBroker, start: Literal["end"] | int
) -> None:
    """The driver begins all partitions anew then: at their ends, with a gap, or at their beginnings."""
    settings = load(kafka, DUTYCYCLE_PARTITIONS="2")
    topic = next(iter(await ensure_topics(settings, ["pods"])))
    consumer = Consumer(settings, "test", [topic], start)
    await consumer.start()
    taken: list[bytes | None] = []

    async def send(name: str) -> list[bytes | None]:
        producer = Producer(settings, "test")
        await producer.start()
        sent: list[bytes | None] = [f"{name}{number}".encode() for number in range(40)]
        for payload in sent:
            assert payload is not None
            await producer.settle([await producer.send(topic, payload.decode(), payload, None)])
        await producer.stop()
        return sent

    async def take(count: int) -> None:
        async with asyncio.timeout(60):
            while len(taken) < count:
                taken.extend(message.value for message in await consumer.take(0.5))

    sent = await send("before-")
    await take(40)
    admin = kafka.admin()  # named, because it must outlive its futures
    await asyncio.to_thread(admin.create_partitions([NewPartitions(topic, 4)])[topic].result, 60)
    sent += await send("while-")  # nobody has heard of the new partitions yet
    async with asyncio.timeout(60):
        while len(await consumer.ends()) < 4:
            await consumer._driver._client.force_metadata_update()
    sent += await send("after-")
    await take(len(sent))
    taken.extend(message.value for message in await consumer.take(2.0))
    await consumer.stop()
    assert sorted(map(str, taken)) == sorted(map(str, sent)), "each once"
