"""``dutycycle extender``: scores nodes for the stock kube-scheduler."""

import argparse

from dutycycle.cli import arguments
from dutycycle.cli.service import run_service
from dutycycle.contract.settings.groups import Settings

EXAMPLE = "dutycycle extender --broker kafka://kafka:9092 --extender-listen 127.0.0.1:8888"
SETTINGS = (
    *arguments.OF_BROKER,
    *arguments.OF_TOPICS,
    *arguments.OF_RESULTS,
    "extender_listen",
    "extender_cert",
    "extender_key",
    "extender_client_ca",
    *arguments.OF_SERVICE,
)


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Settings are all that there is."""


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Answer until a signal."""
    from sinks.scheduling.service import run as extender  # here, not above: --help need not wait for it

    return run_service(extender, "extender", settings)
