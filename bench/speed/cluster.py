"""Topics of one measurement, and the samples that are put on them."""

import asyncio
import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import OffsetSpec  # type: ignore[attr-defined]

from bench.cluster_trace import START_MS, Node, Shape
from bus.kafka.topics import ensure_topics
from contract.log import ConsumerRecord
from contract.settings.groups import Settings
from contract.topics import full_name
from streams.topology import stages
from tests.support.servers.kafka.broker import OwnBroker

PARTITIONS = 8
GPU, HOST = "nvml-samples", "cgroup-samples"
_MAKE = {GPU: Node.nvml, HOST: Node.cgroup}
Sample = tuple[str, str, bytes, int]
"""Topic, key, payload, ``ts_ms``."""


@lru_cache(maxsize=1)
def ticks(nodes: int, seconds: int, topics: tuple[str, ...]) -> list[list[Sample]]:
    """The samples of a training cluster, second by second. The same arguments give the same bytes."""
    cluster = [Node(number, Shape(nodes=nodes)) for number in range(nodes)]
    return [
        [
            (topic, node.name, _MAKE[topic](node, second), START_MS + 1000 * second)
            for node in cluster
            for topic in topics
        ]
        for second in range(seconds)
    ]


@dataclass(frozen=True)
class Topics:
    """Topics under a prefix of their own, so that every worker begins without state."""

    broker: OwnBroker
    prefix: str = field(default_factory=lambda: f"bench-{uuid.uuid4().hex[:8]}.")

    def create(self, nodes: int) -> None:
        """Make the sources and a sink for peers, and name the pods of the cluster."""
        settings = Settings(broker=self.broker.url, topic_prefix=self.prefix, partitions=PARTITIONS)
        asyncio.run(ensure_topics(settings, [GPU, HOST, "pods", "window-aggregates"]))
        cluster = [Node(number, Shape(nodes=nodes)) for number in range(nodes)]
        self.fill(("pods", node.pod_uid, node.pod(), START_MS) for node in cluster)

    def name(self, topic: str) -> str:
        """As Kafka knows it."""
        return full_name(self.prefix, topic)

    def fill(self, samples: Iterable[Sample]) -> None:
        """Send as fast as it goes; returns when Kafka has them."""
        producer = self._producer()
        for sample in samples:
            self._send(producer, sample)
        producer.flush()

    def pace(self, seconds: Iterable[list[Sample]]) -> None:
        """Send a tick of all nodes each second, spread over it."""
        producer, due_s = self._producer(), time.monotonic()
        for tick in seconds:
            for number, sample in enumerate(tick):
                if number % 10 == 0:
                    time.sleep(max(0.0, due_s + number / len(tick) - time.monotonic()))
                self._send(producer, sample)
            due_s += 1
        producer.flush()

    def count(self, topic: str) -> int:
        """How many records were written to a topic."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        parts = {TopicPartition(self.name(topic), number): latest for number in range(PARTITIONS)}
        admin = self.broker.admin()  # named, because it must outlive its futures
        return sum(one.result().offset for one in admin.list_offsets(parts).values())

    def delete(self) -> None:
        """Remove them, with what workers made beside them."""
        admin = self.broker.admin()
        mine = [name for name in admin.list_topics(timeout=10).topics if self.prefix.rstrip(".") in name]
        for one in admin.delete_topics(mine).values():
            one.result()

    def _producer(self) -> Producer:
        own = {"linger.ms": 20, "partitioner": "murmur2_random", "queue.buffering.max.messages": 500_000}
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
