"""``dutycycle topics``: all that a deployment has, made on a real Kafka and found there by its workers."""

import asyncio
import json
import subprocess

from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]  # it is there

from dutycycle.cli.commands.topics import planned
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.settings.load import load
from dutycycle.contract.topics import TOPICS
from dutycycle.kafka.clients import admin_client
from dutycycle.kafka.topics import partitions_of
from streams.app import changelog_topics
from streams.topology import stages
from tests.support.processes.commands import dutycycle, environ, run_to_end
from tests.support.servers.kafka.broker import RunningBroker


def there(settings: Settings) -> dict[str, int]:
    """The test's topics on the broker, with their partitions."""

    async def ask() -> dict[str, int]:
        async with admin_client(settings, "test") as admin:
            return await partitions_of(admin)

    return {name: n for name, n in asyncio.run(ask()).items() if name.startswith(settings.topic_prefix)}


def test_it_plans_every_topic_once() -> None:
    settings = load({"DUTYCYCLE_NODE": "n", "DUTYCYCLE_TOPIC_PREFIX": "x."})
    names = [one.name for one in planned(settings)]
    assert names == [*(f"x.{name}" for name in TOPICS), *changelog_topics(settings, stages(settings))]
    assert {one.name for one in planned(settings) if one.alike} >= {"x.pods", "x.node-parts", "x.state-nvml"}


def test_it_makes_them_and_is_content_with_them_the_second_time(
    kafka: RunningBroker, topic_prefix: str
) -> None:
    env = environ(broker=kafka.url, topic_prefix=topic_prefix, partitions="3")
    first = dutycycle("topics", env=env).stdout
    settings = load(env)
    assert there(settings) == {one.name: 3 for one in planned(settings)}
    assert dutycycle("topics", env=env | {"DUTYCYCLE_PARTITIONS": "5"}).stdout == first
    assert f"{topic_prefix}pods\tpartitions=3\tcompact" in first
    asked = topics(env, "--partitions", "4")
    assert (asked.returncode, asked.stdout) == (1, first)
    assert "--partitions 4: the topics are there already, with 3" in asked.stderr


def test_a_dry_run_needs_no_broker() -> None:
    lines = dutycycle(
        "topics", "--dry-run", env=environ(partitions="24", topic_prefix="y.")
    ).stdout.splitlines()
    assert lines[0] == "y.nvml-samples\tpartitions=24\tdelete\t48 h"
    assert len(lines) == len(planned(load({"DUTYCYCLE_NODE": "n"})))


def test_a_dry_run_says_every_setting_as_json() -> None:
    env = environ(topic_prefix="x.", partitions="12", replication="3")
    plan = json.loads(dutycycle("topics", "--dry-run", "--format", "json", env=env).stdout)
    assert plan == {
        topic.name: {"partitions": 12, "replication": 3, "config": topic.config}
        for topic in planned(load(env))
    }
    refused = topics(env, "--format", "json")
    assert (refused.returncode, "--dry-run" in refused.stderr) == (2, True)


def test_more_replicas_than_brokers_are_refused_at_once_by_the_settings_name(
    kafka: RunningBroker, topic_prefix: str
) -> None:
    done = topics(environ(broker=kafka.url, topic_prefix=topic_prefix), "--replication", "3")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "there are fewer brokers than DUTYCYCLE_REPLICATION" in done.stderr


def topics(env: dict[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    return run_to_end("topics", *arguments, env=env)


def test_it_says_what_is_there_and_mends_it(kafka: RunningBroker, topic_prefix: str) -> None:
    name, state = f"{topic_prefix}nvml-samples", f"{topic_prefix}state-nvml"
    kafka.create_topics({name: 2}, cleanup_policy="compact", segment_ms="600000")
    kafka.create_topics({state: 2}, cleanup_policy="delete", retention_ms="1000")
    env = environ(broker=kafka.url, topic_prefix=topic_prefix)
    first = topics(env)
    assert first.returncode == 1
    assert f"{name}\tpartitions=2\tcompact\t" in first.stdout
    assert f"{state}\tpartitions=2\tdelete\t" in first.stdout
    assert f"error: {name} has cleanup.policy=compact and should have delete" in first.stderr
    assert f"error: {state} has cleanup.policy=delete and should have compact" in first.stderr
    mended = topics(env, "--apply")
    assert (mended.returncode, mended.stderr) == (0, "")
    assert f"{name}\tpartitions=2\tdelete\t168 h" in mended.stdout
    assert topics(env).stdout == mended.stdout
    resource = ConfigResource(ConfigResource.Type.TOPIC, name)
    admin = kafka.admin()  # named, because it must outlive its futures
    settings = admin.describe_configs([resource])[resource].result(timeout=60)
    assert settings["segment.ms"].value == "600000", "what else was given the topic has to stay"


def test_acls_need_no_broker_and_name_topics_and_groups() -> None:
    done = topics(environ(topic_prefix="team."), "--acls", "alice")
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert all("--allow-principal 'User:alice'" in line for line in lines if not line.startswith("#"))
    assert any("--group 'team.streams'" in line for line in lines)
    assert any("--topic 'team.' --resource-pattern-type prefixed" in line for line in lines)
