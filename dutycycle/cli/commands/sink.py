"""``dutycycle sink``: a worker of the sinks app."""

import argparse

from contract.settings.groups import Settings
from dutycycle.cli import arguments
from dutycycle.cli.service import run_service

EXAMPLE = (
    "DUTYCYCLE_RECORDS=postgresql+psycopg://dutycycle@db/dutycycle dutycycle sink --broker kafka://kafka:9092"
)
SETTINGS = (
    *arguments.OF_BROKER,
    *arguments.OF_TOPICS,
    *arguments.OF_SINKS,
    *arguments.OF_WORKER,
    *arguments.OF_SERVICE,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Settings are all that there is."""
    arguments.add_records(parser)


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Write until a signal."""
    from sinks.service import run as sink  # here, not above: --help need not wait for it

    return run_service(sink, "sink", settings)
