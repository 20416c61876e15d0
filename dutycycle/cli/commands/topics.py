"""``dutycycle topics``: creates and verifies every topic of a deployment; ``--dry-run`` lists them."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from dutycycle.cli import arguments
from dutycycle.contract.errors import DutycycleError, SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.topics import ALIKE_TOPICS, TOPICS, full_name
from dutycycle.telemetry.events import Telemetry
from streams.names import SOURCES, changelogs

EXAMPLE = """dutycycle topics --broker kafka://kafka:9092
dutycycle topics --dry-run"""
SETTINGS = (*arguments.OF_BROKER, *arguments.OF_TOPICS)


@dataclass(frozen=True, slots=True)
class Planned:
    """One topic as it should be. ``alike``: it must have as many partitions as all others that are."""

    name: str
    config: Mapping[str, str]
    alike: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whether to do it."""
    parser.add_argument("--dry-run", action="store_true", help="only say which topics there should be")
    arguments.add_timeout(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print each topic with its partitions and how it is cleaned up."""
    if args.dry_run:
        found = {one.name: settings.partitions for one in planned(settings)}
    elif settings.broker is None:
        raise SettingError("no broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER, or try --dry-run")
    else:
        found = asyncio.run(make_topics(settings, Telemetry("topics"), args.timeout))
    for one in planned(settings):
        sys.stdout.write(_line(one, found[one.name]))
    others = {found[one.name] for one in planned(settings) if one.alike} - {settings.partitions}
    if args.setting_partitions is not None and others:
        raise DutycycleError(
            f"--partitions {settings.partitions}: the topics are there already, with {min(others)}. "
            "It is for topics that are created: delete them first, or take another --topic-prefix"
        )
    return 0


def _line(topic: Planned, partitions: int) -> str:
    kept_ms = topic.config.get("retention.ms")
    kept = f"{int(kept_ms) // 3_600_000} h" if kept_ms else "newest of each key"
    return f"{topic.name}\tpartitions={partitions}\t{topic.config['cleanup.policy']}\t{kept}\n"


def planned(settings: Settings) -> list[Planned]:
    """All topics by their full names; those of the contract first."""
    from dutycycle.kafka.topics import CHANGELOG_CONFIG

    ours = [
        Planned(full_name(settings.topic_prefix, name), topic.config(), name in _ALIKE)
        for name, topic in TOPICS.items()
    ]
    return ours + [Planned(name, CHANGELOG_CONFIG, alike=True) for name in changelogs(settings)]


async def make_topics(settings: Settings, telemetry: Telemetry, timeout_s: float) -> dict[str, int]:
    """Create what is missing and verify what is there; the partitions of each, by full name.

    A broker that is unreachable is waited for, ``timeout_s`` at most, and that is said. Raises
    ``PartitionsDifferError``, or a ``BrokerError``.
    """
    from dutycycle.kafka.reachability import answered_within, wait_for_topics

    outputs = [name for name in TOPICS if name not in _ALIKE]
    waiting = wait_for_topics(settings, telemetry, _ALIKE, outputs=outputs, changelogs=changelogs(settings))
    return await answered_within(timeout_s, settings, waiting)


_ALIKE = tuple(dict.fromkeys((*ALIKE_TOPICS, *SOURCES.values())))
"""What the stages read, and what the sinks read of one node in one worker."""
