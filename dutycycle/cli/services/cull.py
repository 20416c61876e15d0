"""Runs ``dutycycle cull``: stops workloads that hold GPUs and have used none of them for hours."""

import argparse

from dutycycle.cli import arguments
from dutycycle.cli.service import run_service
from dutycycle.contract.settings.groups import Settings

EXAMPLE = "dutycycle cull --broker kafka://kafka:9092 --cull-namespaces ml,vision --cull-after 8h"
SETTINGS = (
    *arguments.OF_BROKER,
    *arguments.OF_TOPICS,
    *arguments.OF_RESULTS,
    "annotation_prefix",
    "cull_namespaces",
    "cull_after",
    "cull_notice",
    "cull_daily",
    "cull_dry_run",
    "cull_ledger",
    *arguments.OF_SERVICE,
)


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Add nothing: settings are all that there is."""


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Look until a signal."""
    from sinks.culling.service import run as cull  # here, not above: --help need not wait for it

    return run_service(cull, "cull", settings)
