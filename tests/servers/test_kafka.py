"""The Kafka fixtures: they are what the pipeline's tests stand on."""

import asyncio
import ssl
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import KafkaException

from tests.support.servers.kafka.broker import RunningBroker
from tests.support.servers.kafka.properties import MECHANISM, PASSWORD, USERNAME

_ROUND_TRIP_S = 60


async def _round_trip(kafka: RunningBroker, **client: Any) -> bytes | None:
    """Create a topic, produce one message, and read it back."""
    topic = kafka.new_prefix() + "t"
    kafka.create_topics({topic: 2})
    client["bootstrap_servers"] = kafka.bootstrap
    async with asyncio.timeout(_ROUND_TRIP_S):
        async with AIOKafkaProducer(**client) as producer:
            await producer.send_and_wait(topic, b"value", key=b"key")
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **client) as consumer:
            message = await consumer.getone()
    value: bytes | None = message.value
    return value


async def test_a_message_makes_the_round_trip(kafka: RunningBroker) -> None:
    assert await _round_trip(kafka) == b"value"


async def test_a_topic_is_not_made_by_writing_to_it(kafka: RunningBroker, topic_prefix: str) -> None:
    kafka.create_topics({topic_prefix + "there": 3}, cleanup_policy="compact")
    topics = kafka.admin().list_topics(timeout=10).topics
    assert len(topics[topic_prefix + "there"].partitions) == 3
    missing = kafka.admin().list_topics(topic_prefix + "missing", timeout=10).topics
    assert missing[topic_prefix + "missing"].error is not None
    assert topic_prefix + "missing" not in kafka.admin().list_topics(timeout=10).topics


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_data_outlive_the_broker(kafka: RunningBroker, topic_prefix: str, end: str) -> None:
    topic = topic_prefix + "t"
    kafka.create_topics({topic: 1})
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap, acks="all") as producer:
        await producer.send_and_wait(topic, b"before")
    await asyncio.to_thread(getattr(kafka, end))
    assert not await asyncio.to_thread(kafka.answers)
    await asyncio.to_thread(kafka.start)
    async with (
        asyncio.timeout(_ROUND_TRIP_S),
        AIOKafkaConsumer(topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest") as consumer,
    ):
        assert (await consumer.getone()).value == b"before"


async def test_tls_and_scram(secure_kafka: RunningBroker) -> None:
    assert secure_kafka.certificates
    trusted = ssl.create_default_context(cafile=str(secure_kafka.certificates.authority))
    value = await _round_trip(
        secure_kafka,
        security_protocol="SASL_SSL",
        ssl_context=trusted,
        sasl_mechanism=MECHANISM,
        sasl_plain_username=USERNAME,
        sasl_plain_password=PASSWORD,
    )
    assert value == b"value"


@pytest.mark.parametrize("wrong", [{"sasl_password": "wrong"}, {"security_protocol": "plaintext"}])
def test_the_secure_broker_refuses_a_stranger(secure_kafka: RunningBroker, wrong: dict[str, str]) -> None:
    stranger = secure_kafka.admin(**wrong)
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=3)
    assert secure_kafka.answers()
