"""Runs ``dutycycle sink``: a worker of the sinks app."""

import argparse
import os

from dutycycle.cli import arguments
from dutycycle.cli.service import run_service
from dutycycle.cli.services.serve import run_roles
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings
from dutycycle.process import PARENT_VARIABLE, print_remark
from sinks.records.location import default_records_path
from sinks.serve.roles import OF_METRICS

EXAMPLE = """dutycycle sink --broker kafka://kafka:9092 --records sqlite:///records.db
DUTYCYCLE_RECORDS=postgresql+psycopg://dutycycle@db/dutycycle dutycycle sink --broker kafka://kafka:9092
dutycycle sink --metrics --broker kafka://kafka:9092"""
SETTINGS = (
    *arguments.OF_BROKER,
    *arguments.OF_TOPICS,
    *arguments.OF_RESULTS,
    *arguments.OF_SINKS,
    *arguments.OF_USAGE,
    *OF_METRICS,
    *arguments.OF_WORKER,
    *arguments.OF_SERVICE,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add settings, and which of the two sinks it is."""
    arguments.add_records(parser)
    parser.add_argument(
        "--metrics",
        action="store_true",
        help="serve series of GPUs, pods and jobs to Prometheus instead of writing records and annotations: "
        "a process of its own; with --remote-write it sends them, too",
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Write, or serve, until a signal."""
    if args.metrics:
        return run_roles(("metrics",), settings)
    if "remote_write" in arguments.given_settings(args):
        raise SettingError("--remote-write sends the series of --metrics: give --metrics, too")
    from sinks.service import run as sink  # here, not above: --help need not wait for it

    if settings.records is None and settings.broker is not None and PARENT_VARIABLE not in os.environ:
        where = default_records_path()
        print_remark(f"dutycycle: no --records: peak records go to {where}")

    return run_service(sink, "sink", settings)
