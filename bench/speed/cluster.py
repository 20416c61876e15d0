"""Topics of one measurement, and the samples that are put on them."""

import asyncio
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from bench.cluster_trace import START_MS, Node, Shape
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import TOPICS, full_name
from dutycycle.kafka.topics import ensure_topics
from streams.local import LocalPipeline
from streams.topology import stages
from tests.support.servers.kafka.broker import OwnBroker

PARTITIONS = 8
GPU, HOST = "nvml-samples", "cgroup-samples"
_MAKE = {GPU: Node.nvml, HOST: Node.cgroup}
Sample = tuple[str, str, bytes, int]
"""Topic, key, payload, ``ts_ms``."""
Sent = tuple[str, str, int]
"""Which sample: topic, node, ``ts_ms``."""


def stream_of(nodes: int, seconds: int, topics: tuple[str, ...], gpus: int = 8) -> Iterator[list[Sample]]:
    """The samples of a training cluster, second by second. The same arguments give the same bytes."""
    cluster = [Node(number, Shape(nodes=nodes, gpus=gpus)) for number in range(nodes)]
    for second in range(seconds):
        at_ms = START_MS + 1000 * second
        yield [(topic, node.name, _MAKE[topic](node, second), at_ms) for node in cluster for topic in topics]


@lru_cache(maxsize=1)
def ticks(nodes: int, seconds: int, topics: tuple[str, ...], gpus: int = 8) -> list[list[Sample]]:
    """All of ``stream_of``: so that making them takes no time when they are sent."""
    return list(stream_of(nodes, seconds, topics, gpus))


@dataclass(frozen=True)
class Topics:
    """Topics under a prefix of their own, so that every worker begins without state."""

    broker: OwnBroker
    partitions: int = PARTITIONS
    prefix: str = field(default_factory=lambda: f"bench-{uuid.uuid4().hex[:8]}.")

    @cached_property
    def settings(self) -> Settings:
        """Return the settings by which commands of ours have these topics."""
        return Settings(broker=self.broker.url, topic_prefix=self.prefix, partitions=self.partitions)

    def create(self, nodes: int) -> None:
        """Make the sources and a sink for peers, and name the pods of the cluster."""
        asyncio.run(ensure_topics(self.settings, [GPU, HOST, "pods", "window-aggregates"]))
        cluster = [Node(number, Shape(nodes=nodes)) for number in range(nodes)]
        self.fill(("pods", node.pod_uid, node.pod(), START_MS) for node in cluster)

    @property
    def group(self) -> str:
        """The consumer group of a peer."""
        return self.prefix.rstrip(".")

    def name(self, topic: str) -> str:
        """As Kafka knows it."""
        return full_name(self.prefix, topic)

    def fill(self, samples: Iterable[Sample]) -> None:
        """Send as fast as it goes; returns when Kafka has them."""
        producer = self._producer()
        for sample in samples:
            self._send(producer, sample)
        producer.flush()

    def pace(self, seconds: Iterable[list[Sample]]) -> dict[Sent, float]:
        """Send a tick of all nodes each second, spread over it. By sample: when, by ``time.monotonic``."""
        producer, due_s, sent = self._producer(linger_ms=5), time.monotonic(), {}
        for tick in seconds:
            for number, sample in enumerate(tick):
                if number % 10 == 0:
                    time.sleep(max(0.0, due_s + number / len(tick) - time.monotonic()))
                topic, node, _, ts_ms = sample
                sent[topic, node, ts_ms] = time.monotonic()
                self._send(producer, sample)
            due_s += 1
        producer.flush()
        return sent

    def count(self, topic: str) -> int:
        """How many records were written to a topic."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        parts = {TopicPartition(self.name(topic), number): latest for number in range(self.partitions)}
        return sum(one.result().offset for one in self._admin.list_offsets(parts).values())

    def existing(self) -> list[str]:
        """Which of the contract's topics are there."""
        there = self._admin.list_topics(timeout=10).topics
        return [name for name in TOPICS if self.name(name) in there]

    def stored_bytes(self, topic: str) -> int:
        """What a topic takes on the broker's disk, which is what went over the network to it."""
        return self.broker.stored_bytes(self.name(topic))

    def committed(self, group: str, topic: str) -> int:
        """How many records of a topic a consumer group has committed."""
        places = [TopicPartition(self.name(topic), number) for number in range(self.partitions)]
        asked = self._admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, places)])
        try:
            return sum(max(0, place.offset) for place in asked[group].result().topic_partitions)
        except KafkaException as error:
            if error.args[0].retriable() or error.args[0].code() == KafkaError.COORDINATOR_LOAD_IN_PROGRESS:
                return 0  # the broker has just made the topic of the groups
            raise

    def values(self, topic: str) -> Iterator[bytes]:
        """All that was written to a topic until now."""
        left = self.count(topic)
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": "bench", "log_level": 0})
        places = [TopicPartition(self.name(topic), number, 0) for number in range(self.partitions)]
        consumer.assign(places)
        try:
            while left > 0:
                for message in consumer.consume(1000, 10):
                    if message.error() is None:
                        left -= 1
                        yield message.value() or b""
        finally:
            consumer.close()

    def delete(self) -> None:
        """Remove them, with what workers made beside them."""
        there = self._admin.list_topics(timeout=10).topics
        mine = [name for name in there if self.prefix.rstrip(".") in name]
        for one in self._admin.delete_topics(mine).values():
            one.result()

    @cached_property
    def _admin(self) -> AdminClient:
        """One for all questions: librdkafka crashed where one was made and dropped each quarter second."""
        return self.broker.admin()

    def _producer(self, linger_ms: int = 20) -> Producer:
        own = {
            "linger.ms": linger_ms,
            "partitioner": "murmur2_random",
            "queue.buffering.max.messages": 500_000,
        }
        return Producer({"bootstrap.servers": self.broker.bootstrap, **own})

    def _send(self, producer: Producer, sample: Sample) -> None:
        topic, key, payload, ts_ms = sample
        while True:
            try:
                producer.produce(self.name(topic), payload, key, timestamp=ts_ms)
            except BufferError:
                producer.poll(0.1)  # its queue is full
            else:
                producer.poll(0)
                return


@lru_cache(maxsize=8)
def windows_of(nodes: int, seconds: int, settings: Settings | None = None) -> int:
    """How many records of ``window-aggregates`` these ``nvml-samples`` make: so many as in process."""
    node, pipeline, count = Node(0, Shape(nodes=1)), LocalPipeline(stages(settings or Settings())), 0
    for second in range(seconds):
        at_ms = START_MS + 1000 * second
        outs = pipeline.feed(ConsumerRecord(GPU, 0, second, node.name, node.nvml(second), at_ms))
        count += sum(out.topic == "window-aggregates" for out in outs)
    return nodes * count


def series(nodes: int) -> int:
    """How many series so many nodes have, by the operators' own count."""
    return nodes * sum(_series_of_a_node())


def _series_of_a_node() -> Iterator[int]:
    built = {one.source: one.build for one in stages(Settings())}
    node = Node(0, Shape(nodes=1))
    for topic, make in _MAKE.items():
        operator = built[topic](node.name, None)
        operator.update(ConsumerRecord(topic, 0, 0, node.name, make(node, 0), START_MS))
        yield len(operator.snapshot()["series"])
