"""Runs ``dutycycle topics``: creates a deployment's topics, and says what of those that are there does not
fit."""

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dutycycle.cli import arguments
from dutycycle.contract.analyses import written_topics
from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import ALIKE_TOPICS, TOPICS, full_name
from dutycycle.process import print_remark
from dutycycle.telemetry.events import Telemetry
from streams.names import SOURCES, changelogs, sources

if TYPE_CHECKING:
    from dutycycle.kafka.topic_settings import Difference, TopicDescription, TopicUse

EXAMPLE = """dutycycle topics --broker kafka://kafka:9092
dutycycle topics --dry-run --format json
dutycycle topics --acls alice"""
SETTINGS = (*arguments.OF_BROKER, *arguments.OF_TOPICS, *arguments.OF_RESULTS)
ROLES: dict[str, tuple[str, ...]] = {
    "collector": ("Write", "Describe", "DescribeConfigs", "Create"),
    "stream": ("Read", "Write", "Describe", "DescribeConfigs", "Create"),
    "sink": ("Read", "Write", "Describe", "Create"),
    "reader": ("Read", "Describe"),
}
"""The rights to all topics with the prefix that each part needs. ``sink``: also ``--metrics``, extender,
profile and trial, which write a topic each. ``reader``: top, record, run."""
_GROUPS = {"stream": "streams", "sink": "sinks"}
"""The consumer group of a part, without the prefix."""


@dataclass(frozen=True, slots=True)
class Planned:
    """Describes one topic as it should be. ``alike``: it must have as many partitions as all others that
    are."""

    name: str
    config: Mapping[str, str]
    use: "TopicUse"
    alike: bool


@dataclass(frozen=True, slots=True)
class BrokerTopics:
    """Holds what the broker has. ``descriptions`` is empty where it does not say settings; ``unknown`` says
    why."""

    partitions: Mapping[str, int]
    descriptions: Mapping[str, "TopicDescription"]
    differences: Sequence["Difference"] = ()
    unknown: str | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whether to do it."""
    parser.add_argument("--dry-run", action="store_true", help="only say which topics there should be")
    parser.add_argument(
        "--format", choices=("table", "json"), default="table",
        help="of --dry-run; json has every setting, as for Terraform (default: table)",
    )  # fmt: skip
    parser.add_argument(
        "--apply",
        action="store_true",
        help="give the topics that are there the settings that they should have",
    )
    parser.add_argument(
        "--acls", metavar="USER", help="only print the commands that give a user the rights of each part"
    )
    arguments.add_timeout(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print each topic with its partitions and how it is cleaned up, then what does not fit.

    Returns 1 if workers would not start on these topics.
    """
    if args.acls is not None:
        sys.stdout.write(format_acls(settings, args.acls))
        return 0
    topics = planned(settings)
    if args.format == "json":
        if not args.dry_run:
            raise SettingError("--format json says which topics there should be: give --dry-run, too")
        plan = {
            topic.name: {
                "partitions": settings.partitions,
                "replication": settings.replication,
                "config": dict(topic.config),
            }
            for topic in topics
        }
        sys.stdout.write(json.dumps(plan, indent=2) + "\n")
        return 0
    if args.dry_run:
        for topic in topics:
            sys.stdout.write(format_topic(topic.name, settings.partitions, topic.config))
        return 0
    if settings.broker is None:
        raise SettingError("no broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER, or try --dry-run")
    broker_topics = asyncio.run(make_topics(settings, Telemetry("topics"), args.timeout, apply=args.apply))
    return _show(broker_topics, topics, settings, args)


def _show(
    broker_topics: BrokerTopics, topics: Sequence[Planned], settings: Settings, args: argparse.Namespace
) -> int:
    from dutycycle.kafka.security import bootstrap_servers

    for topic in topics:
        description = broker_topics.descriptions.get(topic.name)
        config = None if description is None else description.settings
        sys.stdout.write(format_topic(topic.name, broker_topics.partitions[topic.name], config))
    bootstrap = ",".join(bootstrap_servers(settings))
    for difference in broker_topics.differences:
        severity = "error" if difference.forbids_start else "warning"
        print_remark(f"dutycycle: {severity}: {difference.describe(bootstrap)}")
    if broker_topics.unknown is not None:
        print_remark(f"dutycycle: how topics are cleaned up is unknown: {broker_topics.unknown}")
    others = {broker_topics.partitions[topic.name] for topic in topics if topic.alike} - {settings.partitions}
    if args.setting_partitions is not None and others:
        raise DutycycleError(
            f"--partitions {settings.partitions}: the topics are there already, with {min(others)}. "
            "It is for topics that are created: delete them first, or take another --topic-prefix"
        )
    return int(any(difference.forbids_start for difference in broker_topics.differences))


def format_topic(name: str, partitions: int, config: Mapping[str, str] | None) -> str:
    """Return one line: name, partitions, policy, how long records are kept; ``?`` for what is unknown."""
    if config is None:
        return f"{name}\tpartitions={partitions}\t?\t?\n"
    policy, kept_ms = config["cleanup.policy"], int(config.get("retention.ms", "-1"))
    deletes = "delete" in policy.split(",")
    kept = (
        "newest of each key" if not deletes else "for ever" if kept_ms < 0 else f"{kept_ms / 3_600_000:g} h"
    )
    return f"{name}\tpartitions={partitions}\t{policy}\t{kept}\n"


def format_acls(settings: Settings, user: str) -> str:
    """Return the commands of Apache Kafka that give ``User:user`` the rights of each part, and no other."""
    from dutycycle.kafka.security import bootstrap_servers

    bootstrap = ",".join(bootstrap_servers(settings)) if settings.broker is not None else "kafka:9092"
    lines = []
    for role, operations in ROLES.items():
        rights = " ".join(f"--operation {operation}" for operation in operations)
        group = _GROUPS.get(role)
        command = f"kafka-acls.sh --bootstrap-server {bootstrap} --add --allow-principal 'User:{user}' "
        lines.append(f"# {role}")
        lines.append(f"{command}{rights} --topic '{settings.topic_prefix}' --resource-pattern-type prefixed")
        if group is not None:
            lines.append(f"{command}--operation Read --group '{settings.topic_prefix}{group}'")
    return "\n".join(lines) + "\n"


def planned(settings: Settings) -> list[Planned]:
    """Return all topics that the chosen analyses need, by their full names; those of the contract first."""
    from dutycycle.kafka.topic_settings import TopicUse
    from dutycycle.kafka.topics import CHANGELOG_CONFIG

    read = set(sources(settings).values())
    ours = [
        Planned(
            full_name(settings.topic_prefix, name),
            TOPICS[name].config(),
            TopicUse.SOURCE if name in read else TopicUse.OUTPUT,
            alike=name in _ALIKE,
        )
        for name in written_topics(TOPICS, settings.analyses)
    ]
    return ours + [
        Planned(name, CHANGELOG_CONFIG, TopicUse.CHANGELOG, alike=True) for name in changelogs(settings)
    ]


async def make_topics(
    settings: Settings, telemetry: Telemetry, timeout_s: float, *, apply: bool = False
) -> BrokerTopics:
    """Create what is missing, and read what is there; ``apply``: mend the settings of what is there first.

    A broker that is unreachable is waited for, ``timeout_s`` at most, and that is said. Raises
    ``PartitionsDifferError``, or a ``BrokerError``.
    """
    from dutycycle.kafka.clients import admin_client
    from dutycycle.kafka.errors import BrokerRefusedError
    from dutycycle.kafka.reachability import answered_within, wait_for_topics
    from dutycycle.kafka.topic_settings import apply_settings, compare_settings, describe_topics

    outputs = [name for name in TOPICS if name not in _ALIKE]
    waiting = wait_for_topics(
        settings, telemetry, _ALIKE, outputs=outputs, changelogs=changelogs(settings), verify=False
    )
    partitions = await answered_within(timeout_s, settings, waiting)
    topics = planned(settings)
    names = [topic.name for topic in topics]

    def compare(descriptions: Mapping[str, "TopicDescription"]) -> list["Difference"]:
        return [
            difference
            for topic in topics
            for difference in compare_settings(
                topic.name, topic.use, topic.config, descriptions[topic.name], settings.replication
            )
        ]

    try:
        async with admin_client(settings, "topics") as admin:
            descriptions = await describe_topics(admin, names)
            if apply:
                await apply_settings(admin, descriptions, compare(descriptions))
                descriptions = await describe_topics(admin, names)
    except BrokerRefusedError as error:
        if apply:
            raise
        return BrokerTopics(partitions, {}, unknown=str(error))
    return BrokerTopics(partitions, descriptions, compare(descriptions))


_ALIKE = tuple(dict.fromkeys((*ALIKE_TOPICS, *SOURCES.values())))
"""What the stages read, and what the sinks read of one node in one worker."""
