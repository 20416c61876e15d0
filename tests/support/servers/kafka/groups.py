"""Who shares a consumer group's partitions, as the broker says."""

from confluent_kafka import ConsumerGroupState, KafkaException
from confluent_kafka.admin import AdminClient


def workers_of(admin: AdminClient, group: str) -> int:
    """How many members the group has, each with partitions; 0 while they are dealt out anew."""
    (answer,) = admin.describe_consumer_groups([group]).values()
    try:
        found = answer.result(10)
    except (KafkaException, TimeoutError):  # the broker has just started, or is busy
        return 0
    if found.state != ConsumerGroupState.STABLE:
        return 0
    return sum(bool(one.assignment.topic_partitions) for one in found.members)
