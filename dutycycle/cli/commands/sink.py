"""``dutycycle sink``: a worker of the sinks app."""

import argparse

from contract.settings.settings import Settings
from dutycycle.cli import flags
from dutycycle.cli.service import run_service

EXAMPLE = (
    "DUTYCYCLE_RECORDS=postgresql+psycopg://dutycycle@db/dutycycle dutycycle sink --broker kafka://kafka:9092"
)
SETTINGS = (*flags.BROKER, *flags.TOPICS, *flags.SINKS, *flags.WORKER, *flags.SERVICE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Settings are all that there is."""
    flags.add_records(parser)


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Write until a signal."""
    from sinks.service import run as sink  # here, not above: --help need not wait for it

    return run_service(sink, "sink", settings)
