"""Topics are created with the partitions that belong together, or the start is refused."""

import logging
from collections.abc import Callable

import pytest

from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load as load_settings
from dutycycle.kafka.embedded import EmbeddedBroker
from dutycycle.kafka.errors import BrokerRefusedError, BrokerUnreachableError
from dutycycle.kafka.reachability import wait_for_topics
from dutycycle.kafka.topics import PartitionsDifferError, common_partitions, ensure_topics
from dutycycle.telemetry.events import Telemetry
from tests.support.servers.kafka.broker import RunningBroker

LEVEL = "app-level-changelog"


@pytest.mark.parametrize(
    ("there", "alike", "expected"),
    [
        ({}, ["a", "b"], 8),
        ({"a": 4}, ["a", "b"], 4),
        ({"a": 4, "b": 4, "c": 9}, ["a", "b"], 4),
        ({"c": 9}, ["a", "b"], 8),
    ],
)
def test_common_partitions(there: dict[str, int], alike: list[str], expected: int) -> None:
    assert common_partitions(there, alike, 8) == expected


def test_a_difference_names_topic_has_wants_and_fix() -> None:
    with pytest.raises(PartitionsDifferError) as caught:
        common_partitions({"p.pods": 3, LEVEL: 8}, ["p.pods", LEVEL], 8)
    message = str(caught.value)
    for part in (f"{LEVEL} has 8", "p.pods has 3", "delete p.pods", "creates it with 8", "TOPIC_PREFIX"):
        assert part in message


async def test_what_the_embedded_broker_lacks_is_named(settings: Settings) -> None:
    with pytest.raises(BrokerRefusedError, match=r"dutycycle\.trends.*cannot create topics"):
        await ensure_topics(settings, ["pods"], outputs=["trends"])


async def test_the_embedded_broker_passes_when_all_is_there(
    settings: Settings, broker: EmbeddedBroker
) -> None:
    broker.create_topic(LEVEL, 3)
    found = await ensure_topics(settings, ["pods"], changelogs={LEVEL: "pods"})
    assert found == {"dutycycle.pods": 3, LEVEL: 3}


@pytest.fixture
def real(kafka: RunningBroker, topic_prefix: str) -> Callable[..., Settings]:
    """Settings for the real Kafka and this test's own topics."""

    def load(**extra: str) -> Settings:
        return load_settings(
            kafka.settings() | {"DUTYCYCLE_TOPIC_PREFIX": topic_prefix, "DUTYCYCLE_NODE": "a"} | extra
        )

    return load


async def test_creates_all_once_and_then_finds_them(
    real: Callable[..., Settings], kafka: RunningBroker
) -> None:
    settings = real(DUTYCYCLE_PARTITIONS="5")
    prefix = settings.topic_prefix
    changelogs = {f"{prefix}{LEVEL}": "nvml-samples"}
    expected = {f"{prefix}{name}": 5 for name in ("nvml-samples", "pods", "trends", LEVEL)}
    for _ in range(2):
        found = await ensure_topics(
            settings, ["nvml-samples", "pods"], outputs=["trends"], changelogs=changelogs
        )
        assert found == expected


async def test_a_created_topic_follows_those_that_exist(
    real: Callable[..., Settings], kafka: RunningBroker
) -> None:
    settings = real()
    kafka.create_topics({settings.topic_prefix + "nvml-samples": 2})
    found = await ensure_topics(settings, ["nvml-samples", "cgroup-samples"])
    assert set(found.values()) == {2}


async def test_the_start_is_refused_on_a_difference(
    real: Callable[..., Settings], kafka: RunningBroker
) -> None:
    settings = real()
    prefix = settings.topic_prefix
    kafka.create_topics({prefix + "pods": 2, prefix + LEVEL: 3, prefix + "trends": 7})
    await ensure_topics(settings, ["pods"], outputs=["trends"])
    with pytest.raises(PartitionsDifferError, match="has 3 partitions"):
        await ensure_topics(settings, ["pods"], changelogs={prefix + LEVEL: "pods"})


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"DUTYCYCLE_REPLICATION": "3"}, "fewer brokers than DUTYCYCLE_REPLICATION"),
        ({"DUTYCYCLE_PARTITIONS": "10000"}, "DUTYCYCLE_PARTITIONS"),
    ],
    ids=str,
)
async def test_what_the_broker_never_does_is_refused_by_the_settings_name(
    real: Callable[..., Settings], given: dict[str, str], says: str
) -> None:
    settings = real(**given)
    with pytest.raises(
        BrokerRefusedError, match=rf"creating topic {settings.topic_prefix}pods.*{says}"
    ) as caught:
        await ensure_topics(settings, ["pods", "nvml-samples"])
    assert caught.value.reason == "topic_settings"


async def test_settings_of_a_topic_arrive(real: Callable[..., Settings], kafka: RunningBroker) -> None:
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # its stubs forget it

    settings = real()
    await ensure_topics(settings, ["pods", "nvml-samples"])
    admin = kafka.admin()
    got = {}
    for name in ("pods", "nvml-samples"):
        resource = ConfigResource(ConfigResource.Type.TOPIC, settings.topic_prefix + name)
        described = admin.describe_configs([resource])[resource].result(timeout=30)
        got[name] = (described["cleanup.policy"].value, described["retention.ms"].value)
    assert got["pods"][0] == "compact"
    assert got["nvml-samples"] == ("delete", str(2 * 24 * 3_600_000))


async def test_why_it_waits_is_said_once_and_its_end(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    asked = iter([BrokerUnreachableError("controller", "there is no controller yet")] * 2 + [None])

    async def ensure(*_: object, **__: object) -> dict[str, int]:
        if error := next(asked):
            raise error
        return {"x": 1}

    monkeypatch.setattr("dutycycle.kafka.reachability.ensure_topics", ensure)
    telemetry = Telemetry("topics")
    with caplog.at_level(logging.INFO, "dutycycle"):
        assert await wait_for_topics(settings, telemetry, ["pods"]) == {"x": 1}
    assert caplog.text.count("there is no controller yet") == 1
    assert not telemetry.conditions
