"""Goal: the published examples of every record decode, and are written again byte for byte the same."""

import re

import orjson
import pytest

from docs.generate_contract import PAGE
from dutycycle.contract.codec import decode, encode
from dutycycle.contract.records.derived import Subject, gpu_subject, job_subject, node_subject, pod_subject
from dutycycle.contract.topics import TOPICS, full_name, short_name

EXAMPLES = dict(
    re.findall(r"<!-- example ([\w-]+) -->\n```json\n(.+?)\n```", PAGE.read_text("utf-8"), re.DOTALL)
)
"""The examples of the published page, by topic."""


@pytest.mark.parametrize("topic", EXAMPLES)
def test_an_example_survives_byte_for_byte(topic: str) -> None:
    data = orjson.dumps(orjson.loads(EXAMPLES[topic]))
    assert encode(decode(TOPICS[topic].record, data, topic)) == data


def test_every_public_topic_has_an_example() -> None:
    assert list(EXAMPLES) == [topic.name for topic in TOPICS.values() if not topic.internal]


def test_a_topic_is_configured_as_its_cleanup_says() -> None:
    """Keys and cleanups stand on the page, which is of the code."""
    for topic in TOPICS.values():
        config = topic.config()
        assert config["cleanup.policy"] == topic.cleanup, topic.name
        assert ("retention.ms" in config) == (topic.cleanup == "delete"), topic.name
        assert int(config["max.message.bytes"]) >= topic.max_bytes, topic.name


def test_what_is_written_every_ten_seconds_and_read_from_its_beginning_is_compacted_soon() -> None:
    """A node writes 4 kB every ten seconds: with the broker's segments a start would read a gigabyte of each
    partition."""
    config = TOPICS["node-parts"].config()
    assert int(config["max.message.bytes"]) < int(config["segment.bytes"]) <= 32 * 1024**2
    assert "segment.bytes" not in TOPICS["trends"].config()


@pytest.mark.parametrize("prefix", ["dutycycle.", "", "team-a."])
def test_full_and_short_names_are_each_other_s_inverse(prefix: str) -> None:
    for name in TOPICS:
        assert full_name(prefix, name) == prefix + name
        assert short_name(prefix, prefix + name) == name


@pytest.mark.parametrize("full", ["nvml-samples", "other.nvml-samples", "dutycycle.nvml", "dutycycle.", ""])
def test_a_topic_that_is_none_of_ours(full: str) -> None:
    assert short_name("dutycycle.", full) is None


@pytest.mark.parametrize(
    ("subject", "key"),
    [
        (gpu_subject("a", "GPU-1"), "gpu/a/GPU-1"),
        (node_subject("a"), "node/a"),
        (pod_subject("a", "4f0c"), "pod/4f0c"),
        (job_subject("77aa"), "job/77aa"),
    ],
)
def test_a_subject_s_key(subject: Subject, key: str) -> None:
    assert subject.key == key
    assert decode(Subject, b'{"v":1,' + encode(subject)[1:], "trends") == subject
