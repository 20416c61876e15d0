"""The Kafka fixtures are as strict as a cluster's: no topic by itself, nobody without credentials."""

import pytest
from confluent_kafka import KafkaException

from tests.support.servers.kafka.broker import RunningBroker


async def test_a_topic_is_not_made_by_writing_to_it(kafka: RunningBroker, topic_prefix: str) -> None:
    kafka.create_topics({topic_prefix + "there": 3}, cleanup_policy="compact")
    topics = kafka.admin().list_topics(timeout=60).topics
    assert len(topics[topic_prefix + "there"].partitions) == 3
    missing = kafka.admin().list_topics(topic_prefix + "missing", timeout=60).topics
    assert missing[topic_prefix + "missing"].error is not None
    assert topic_prefix + "missing" not in kafka.admin().list_topics(timeout=60).topics


@pytest.mark.parametrize("wrong", [{"sasl_password": "wrong"}, {"security_protocol": "plaintext"}])
def test_the_secure_broker_refuses_a_stranger(secure_kafka: RunningBroker, wrong: dict[str, str]) -> None:
    stranger = secure_kafka.admin(**wrong)
    with pytest.raises(KafkaException):
        stranger.list_topics(timeout=3)
    assert secure_kafka.answers()
