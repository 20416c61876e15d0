"""A replay in process and the same trace through Kafka and Faust: the same derived records."""

from collections import defaultdict
from pathlib import Path

import orjson
import pytest

from bench.cluster_trace import Shape, records
from bus.embedded import EmbeddedBroker
from streams.app import changelog_topics
from streams.topology import stages
from tests.e2e.commands import Derived, dutycycle, environ, read_now, running, wait_until
from tests.servers.kafka.broker import RunningBroker
from wire.settings import load
from wire.topics import DEFAULT_PREFIX, TOPICS, full_name
from wire.trace import TraceWriter, read_trace

SHAPE = Shape(nodes=4, gpus=2, seconds=130)
IN_ORDER = ("window-aggregates", "trends", "cycles")
MERGED = ("pod-peaks", "job-peaks")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "small.jsonl.zst"
    with TraceWriter(str(path)) as writer:
        for one in records(SHAPE):
            writer.write(one)
    return path


def comparable(found: Derived) -> dict[tuple[str, str, str], list[bytes]]:
    """By topic, key and metric, repeats removed; of the records that are merged across nodes the last.

    The sources of one pod (GPU, CPU) are different partitions, so between metrics there is no order.
    """
    by_metric: dict[tuple[str, str, str], list[bytes]] = defaultdict(list)
    for (topic, key), payloads in found.items():
        for payload in payloads[-1:] if topic in MERGED else dict.fromkeys(payloads):
            by_metric[topic, key, orjson.loads(payload).get("metric", "")].append(payload)
    return by_metric


def in_process(trace: Path, tmp_path: Path) -> dict[tuple[str, str, str], list[bytes]]:
    out = tmp_path / "in-process.jsonl"
    dutycycle("replay", trace, "--keep-open", "--out", out, env=environ())
    found: Derived = defaultdict(list)
    for one in read_trace(str(out)):
        found[one.topic.removeprefix(DEFAULT_PREFIX), one.key or ""].append(one.payload or b"")
    return comparable(found)


def missing(
    expected: dict[tuple[str, str, str], list[bytes]], got: dict[tuple[str, str, str], list[bytes]]
) -> str:
    """In words: which series differ, and how."""
    wrong = [name for name in expected if got.get(name) != expected[name]]
    few = [f"{name}: {len(got.get(name, []))} of {len(expected[name])} records" for name in wrong[:5]]
    return (
        f"{len(wrong)} of {len(expected)} series: {few}, and {len(got.keys() - expected.keys())} unexpected"
    )


def check(url: str, prefix: str, trace: Path, tmp_path: Path) -> None:
    expected = in_process(trace, tmp_path)
    settings = load({}, {"broker": url, "topic_prefix": prefix})
    env = environ(broker=url, topic_prefix=prefix, snapshot_interval="1s", partitions="4")
    with running("stream", env=env, log=tmp_path / "stream.log"):
        dutycycle("replay", trace, "--broker", url, env=env)

        def arrived() -> bool:
            return comparable(read_now(settings, (*IN_ORDER, *MERGED))) == expected

        wait_until(arrived, lambda: missing(expected, comparable(read_now(settings, (*IN_ORDER, *MERGED)))))
    got = comparable(read_now(settings, (*IN_ORDER, *MERGED)))
    assert got == expected, "and ending the worker adds nothing"
    topics = {topic for topic, _, _ in got}
    assert topics == {*IN_ORDER, *MERGED}


def test_on_the_real_kafka(kafka: RunningBroker, topic_prefix: str, trace: Path, tmp_path: Path) -> None:
    check(kafka.url, topic_prefix, trace, tmp_path)


def test_on_the_embedded_broker(trace: Path, tmp_path: Path) -> None:
    settings = load({}, {"topic_prefix": "test."})
    names = [full_name("test.", name) for name in TOPICS]
    with EmbeddedBroker(dict.fromkeys([*names, *changelog_topics(settings, stages(settings))], 4)) as broker:
        check(broker.url, "test.", trace, tmp_path)
