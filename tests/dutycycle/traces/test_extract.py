"""What is read for a report: of pods, whose topic is compacted; of samples no more than their nodes' of that
time; and from a broker that goes away."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from dutycycle.contract.codec import encode
from dutycycle.contract.log import ConsumerRecord
from dutycycle.contract.records.pods import JobRef, Pod
from dutycycle.contract.records.samples import NvmlSample
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import SAMPLE_TOPICS
from dutycycle.contract.trace_reader import TraceReader
from dutycycle.kafka.consumer import Consumer
from dutycycle.kafka.errors import BrokerError
from dutycycle.kafka.producer import Producer, partition_of
from dutycycle.traces.extract import (
    ExtractRequest,
    ReadLimit,
    TooManySamplesError,
    extract,
    known_pods,
    read_batches,
)
from tests.support.kafka import send
from tests.support.servers.kafka.broker import OwnBroker, RunningBroker

WANTED = ExtractRequest(None, 1000, 2000)


def told(ts_ms: int, uid: str = "p", **values: Any) -> ConsumerRecord:
    pod = replace(Pod(uid=uid, name=uid, node="a", phase="Running", started_ms=500), **values)
    return ConsumerRecord("pods", 0, ts_ms, uid, encode(pod), ts_ms)


GONE = ConsumerRecord("pods", 0, 1900, "p", None, 1900)


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([told(600)], [(1000, "Running")]),  # as of the beginning
        ([told(600), told(1500, phase="Succeeded")], [(1000, "Running"), (1500, "Succeeded")]),
        ([told(1200), told(2500, phase="Succeeded", finished_ms=2400)], [(1200, "Running")]),
        ([told(1200), GONE], [(1200, "Running")]),  # it is not forgotten that it was there
        ([told(600, finished_ms=900)], []),  # ended before
        ([told(2500, phase="Succeeded", finished_ms=2400)], [(1000, "Running")]),  # compacted
        ([told(2500, started_ms=2200)], []),  # began after
        ([ConsumerRecord("pods", 0, 1, "p", b"no pod", 1)], []),
    ],
)
def test_what_was_known_in_the_time_that_is_wanted(
    messages: list[ConsumerRecord], expected: list[tuple[int, str]]
) -> None:
    found = known_pods(messages, WANTED)
    assert [(one.ts_ms, orjson.loads(one.payload or b"")["phase"]) for one, _ in found] == expected


async def test_a_broker_that_goes_away_ends_the_reading(kafka: RunningBroker, topic_prefix: str) -> None:
    """Frozen after the first batch: so much lies there that it is not all on its way already."""
    if not isinstance(kafka, OwnBroker):
        pytest.skip("needs a broker of its own to freeze")
    settings = load({}, {"broker": kafka.url, "topic_prefix": topic_prefix})
    kafka.create_topics({topic_prefix + "pods": 1})
    payload = token_bytes(900_000)  # which no compression makes less
    await send(settings, [("pods", "p", payload)] * 40, 1)
    batches = read_batches(settings, ("pods",), "beginning", timeout_s=1.0)
    messages, left = await anext(batches)
    assert len(messages) + left == 40
    with kafka.frozen(), pytest.raises(BrokerError, match=r"has given nothing for 1 s; \d+ records are left"):
        _ = [one async for one in batches]


NODES = [f"gpu-{at}" for at in range(24)]
HOURS, PER_HOUR, PARTITIONS = 12, 60, 8
STEP_MS = 3_600_000 // PER_HOUR
START_MS = 1_790_000_000_000
HOUR = START_MS + 3 * 3_600_000, START_MS + 4 * 3_600_000
WRONG = (partition_of(NODES[0], PARTITIONS) + 1) % PARTITIONS


BESIDE = [node for node in NODES if partition_of(node, PARTITIONS) == partition_of(NODES[0], PARTITIONS)]
"""The nodes of its partition. Their samples are large, as a broker gives a megabyte at once."""


def sample_of(node: str, ts_ms: int) -> bytes:
    sample = encode(NvmlSample(node=node, collector="c", seq=1, ts_ms=ts_ms, interval_ms=STEP_MS, gpus=()))
    return sample + b" " + token_hex(10_000 if node in BESIDE else 10).encode()


def day(nodes: list[str]) -> list[tuple[str, int]]:
    return [(node, START_MS + at * STEP_MS) for at in range(HOURS * PER_HOUR) for node in nodes]


def kept_late() -> list[tuple[str, int]]:
    """A node whose collector could send nothing for an hour, while the others could."""
    samples = day(NODES)
    late = [(node, at_ms) for node, at_ms in samples if node == NODES[0] and HOUR[0] <= at_ms < HOUR[1]]
    rest = [sample for sample in samples if sample not in set(late)]
    again = next(at for at, (node, ms) in enumerate(rest) if node == NODES[0] and ms >= HOUR[1])
    return [*rest[:again], *late, *rest[again:]]


@pytest.fixture
def cluster(kafka: RunningBroker, topic_prefix: str) -> Settings:
    settings = load(kafka.settings(), {"topic_prefix": topic_prefix})
    kafka.create_topics(dict.fromkeys((topic_prefix + name for name in SAMPLE_TOPICS), PARTITIONS))
    return settings


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Counts what a broker gave, by topic without prefix."""
    counts: Counter[str] = Counter()
    take = Consumer.take

    async def counted(self: Consumer, *args: Any, **kwargs: Any) -> list[ConsumerRecord]:
        messages = await take(self, *args, **kwargs)
        counts.update(message.topic.rpartition(".")[2] for message in messages)
        return messages

    monkeypatch.setattr(Consumer, "take", counted)
    return counts


async def put(settings: Settings, samples: list[tuple[str, int]], partition: int | None = None) -> None:
    """Put samples on their topic, in their order; all in one partition, as another client may."""
    producer = Producer(settings, "test")
    await producer.start()
    topic = settings.topic_prefix + "nvml-samples"
    under_way = [
        await producer._driver.send(
            topic, sample_of(node, ts_ms), node.encode(), partition=partition, timestamp_ms=ts_ms
        )
        for node, ts_ms in samples
    ]
    await producer.settle(under_way)
    await producer.stop()


def extracted(
    settings: Settings, folder: Path, nodes: Sequence[str] = NODES[:1], limit: ReadLimit | None = None
) -> Iterator[int]:
    """The times of the samples that are got of a job, of an hour."""
    job = JobRef(api_version="v1", kind="Job", name="j", uid="j")
    pods = [
        Pod(uid=node, name=node, node=node, phase="Running", started_ms=START_MS, job=job) for node in nodes
    ]
    wanted = ExtractRequest("j", *HOUR, pods=tuple(pods), limit=limit)
    extract(folder / "trace.jsonl", wanted, settings, overwrite=False, timeout_s=20)
    for _, record in TraceReader(str(folder / "trace.jsonl")):
        if record.topic.endswith("nvml-samples"):
            yield record.ts_ms or 0


@pytest.mark.parametrize("samples", [day(NODES), kept_late()], ids=["in order", "kept late"])
def test_of_a_day_an_hour_of_its_node_is_read(
    samples: list[tuple[str, int]], cluster: Settings, tmp_path: Path, read: Counter[str]
) -> None:
    asyncio.run(put(cluster, samples))
    others = [
        ("pods", f"q{at}", Pod(uid=f"q{at}", name="q", node="n", phase="Running"), START_MS)
        for at in range(50)
    ]
    asyncio.run(send(cluster, others))
    assert len(list(extracted(cluster, tmp_path))) == PER_HOUR
    assert read["nvml-samples"] < 4 * PER_HOUR * len(BESIDE) < len(samples) / 30
    assert read["pods"] == 0, "what did not change is known"


def test_a_node_that_another_client_put_elsewhere_is_found(cluster: Settings, tmp_path: Path) -> None:
    asyncio.run(put(cluster, day(NODES[:1]), WRONG))
    assert len(list(extracted(cluster, tmp_path))) == PER_HOUR


def test_for_a_node_that_sent_nothing_no_other_is_given_up(cluster: Settings, tmp_path: Path) -> None:
    asyncio.run(put(cluster, day(NODES)))
    limit = ReadLimit(len(day(NODES)) // 10, 10**9)
    assert len(list(extracted(cluster, tmp_path, [NODES[0], "gone"], limit))) == PER_HOUR


def test_more_than_may_be_read_is_refused_in_words(cluster: Settings, tmp_path: Path) -> None:
    asyncio.run(put(cluster, day(NODES[:2])))
    for limit in (ReadLimit(10, 10**9), ReadLimit(10**9, 1000)):
        with pytest.raises(TooManySamplesError, match=r"more than .* samples or .* ask for a shorter time"):
            list(extracted(cluster, tmp_path, limit=limit))
