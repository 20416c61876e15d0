"""Runs ``dutycycle collect``: the node collector alone, as the DaemonSet runs it."""

import argparse

from dutycycle.cli import arguments
from dutycycle.cli.garbage import importing
from dutycycle.cli.service import run_service
from dutycycle.contract.settings.groups import Settings

EXAMPLE = """dutycycle collect --broker kafka://kafka:9092 --interval 1s --containers all
dutycycle collect --broker kafka://kafka:9092 --prometheus http://prometheus:9090"""
SETTINGS = (
    *arguments.OF_BROKER, *arguments.OF_TOPICS, *arguments.OF_NODE, *arguments.OF_PROMETHEUS,
    *arguments.OF_SERVICE,
)  # fmt: skip


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: settings are all that there is."""


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Collect until a signal."""
    with importing():  # here, not above: --help need not wait for it
        from collectors.service import run as collect

    return run_service(collect, "collect", settings)
