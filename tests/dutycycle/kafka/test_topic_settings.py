"""What a topic's settings do to Dutycycle: a table of those that forbid a start, warn, or pass."""

import pytest

from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.topic_settings import TopicDescription, TopicUse, compare_settings
from dutycycle.kafka.topics import CHANGELOG_CONFIG

LONGEST = str(2**63 - 1)
SAMPLES = TOPICS["nvml-samples"].config()
TRENDS = TOPICS["trends"].config()
DAY_MS = str(86_400_000)


def description(
    wanted: dict[str, str], instead: dict[str, str] | None = None, replication: int = 1
) -> TopicDescription:
    """A topic as Dutycycle makes it, but for ``instead``."""
    settings = {"message.timestamp.type": "CreateTime", "min.insync.replicas": "1", **wanted}
    return TopicDescription(replication, settings | (instead or {}), {})


@pytest.mark.parametrize(
    ("use", "wanted"),
    [(TopicUse.SOURCE, SAMPLES), (TopicUse.CHANGELOG, CHANGELOG_CONFIG), (TopicUse.OUTPUT, TRENDS)],
)
def test_a_topic_that_dutycycle_made_has_no_difference(use: TopicUse, wanted: dict[str, str]) -> None:
    assert compare_settings("t", use, wanted, description(wanted)) == []


@pytest.mark.parametrize(
    ("use", "wanted", "setting", "value", "forbids"),
    [
        (TopicUse.SOURCE, SAMPLES, "cleanup.policy", "compact", True),
        (TopicUse.SOURCE, SAMPLES, "cleanup.policy", "compact,delete", True),
        (TopicUse.OUTPUT, TOPICS["window-aggregates"].config(), "cleanup.policy", "compact", False),
        (TopicUse.OUTPUT, TRENDS, "cleanup.policy", "delete", False),
        (TopicUse.CHANGELOG, CHANGELOG_CONFIG, "cleanup.policy", "delete", True),
        (TopicUse.CHANGELOG, CHANGELOG_CONFIG, "cleanup.policy", "compact,delete", True),
        (TopicUse.CHANGELOG, CHANGELOG_CONFIG, "max.message.bytes", "5000", True),
        (TopicUse.OUTPUT, TRENDS, "max.message.bytes", "600", True),
        (TopicUse.SOURCE, SAMPLES, "max.message.bytes", "20000", False),
        (TopicUse.SOURCE, SAMPLES, "retention.ms", "3600000", False),
        (TopicUse.SOURCE, SAMPLES, "retention.bytes", "1000000", False),
        (TopicUse.SOURCE, SAMPLES, "message.timestamp.after.max.ms", "3600000", False),
        (TopicUse.SOURCE, SAMPLES, "message.timestamp.before.max.ms", "3600000", False),
        (TopicUse.CHANGELOG, CHANGELOG_CONFIG, "message.timestamp.type", "CreateTime", False),
        (TopicUse.CHANGELOG, CHANGELOG_CONFIG, "min.compaction.lag.ms", "0", False),
        (TopicUse.OUTPUT, TRENDS, "min.insync.replicas", "2", True),
        (TopicUse.SOURCE, TOPICS["node-parts"].config(), "segment.bytes", "1073741824", False),
    ],
)
def test_a_difference_names_what_it_does_and_the_command_that_mends_it(
    use: TopicUse, wanted: dict[str, str], setting: str, value: str, forbids: bool
) -> None:
    (difference,) = compare_settings("x.t", use, wanted, description(wanted, {setting: value}))
    assert difference.forbids_start is forbids
    line = difference.describe("kafka:9092")
    assert line.startswith(f"x.t has {setting}={value} and should have {difference.wanted}: ")
    assert (
        f"kafka-configs.sh --bootstrap-server kafka:9092 --alter --topic x.t --add-config {setting}=" in line
    )


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("retention.ms", "-1"),
        ("retention.ms", str(30 * int(DAY_MS))),
        ("max.message.bytes", "8000000"),
        ("message.timestamp.type", "LogAppendTime"),
        ("compression.type", "gzip"),
    ],
)
def test_what_gives_more_than_is_needed_passes(setting: str, value: str) -> None:
    assert compare_settings("t", TopicUse.SOURCE, SAMPLES, description(SAMPLES, {setting: value})) == []


def test_event_times_are_not_limited_where_the_broker_gives_the_time() -> None:
    found = description(
        SAMPLES, {"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "3600000"}
    )
    assert compare_settings("t", TopicUse.SOURCE, SAMPLES, found) == []


def test_replicas_are_compared_with_what_is_asked_for() -> None:
    (fewer,) = compare_settings("t", TopicUse.SOURCE, SAMPLES, description(SAMPLES), replication=3)
    assert (fewer.setting, fewer.actual, fewer.wanted, fewer.forbids_start) == ("replicas", "1", None, False)
    assert "kafka-reassign-partitions.sh" in fewer.describe("kafka:9092")
    (unsafe,) = compare_settings(
        "t", TopicUse.SOURCE, SAMPLES, description(SAMPLES, replication=3), replication=3
    )
    assert (unsafe.setting, unsafe.wanted) == ("min.insync.replicas", "2")


def test_what_forbids_a_start_comes_first() -> None:
    found = description(
        SAMPLES, {"cleanup.policy": "compact", "retention.ms": "1000", "max.message.bytes": "9"}
    )
    forbids = [one.forbids_start for one in compare_settings("t", TopicUse.SOURCE, SAMPLES, found)]
    assert forbids == [True, False, False]
