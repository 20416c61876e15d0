"""``dutycycle topics``: creates and verifies the topics; with ``--dry-run`` says which there should be."""

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING

from contract.errors import SettingError
from contract.settings.settings import Settings
from dutycycle.cli import flags
from telemetry.events import Telemetry

if TYPE_CHECKING:
    from dutycycle.cli.topic_list import Planned

EXAMPLE = """dutycycle topics --broker kafka://kafka:9092 --partitions 24 --replication 3
dutycycle topics --dry-run"""
SETTINGS = (*flags.BROKER, *flags.TOPICS)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Whether to do it."""
    parser.add_argument("--dry-run", action="store_true", help="only say which topics there should be")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print each topic with its partitions and how it is cleaned up."""
    from dutycycle.cli.topic_list import make_topics, planned  # here, not above: --help need not wait for it

    if args.dry_run:
        found = {one.name: settings.partitions for one in planned(settings)}
    elif settings.broker is None:
        raise SettingError("no broker: give --broker kafka://host:9092 or DUTYCYCLE_BROKER, or try --dry-run")
    else:
        found = asyncio.run(make_topics(settings, Telemetry("topics")))
    for one in planned(settings):
        sys.stdout.write(_line(one, found[one.name]))
    return 0


def _line(topic: "Planned", partitions: int) -> str:
    kept_ms = topic.config.get("retention.ms")
    kept = f"{int(kept_ms) // 3_600_000} h" if kept_ms else "newest of each key"
    return f"{topic.name}\tpartitions={partitions}\t{topic.config['cleanup.policy']}\t{kept}\n"
