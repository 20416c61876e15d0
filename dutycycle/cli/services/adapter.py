"""``dutycycle adapter``: answers autoscalers, as an aggregated API server."""

import argparse

from dutycycle.cli import arguments
from dutycycle.cli.service import run_service
from dutycycle.contract.settings.groups import Settings

EXAMPLE = (
    "dutycycle adapter --broker kafka://kafka:9092 --adapter-listen 0.0.0.0:6443 "
    "--adapter-cert tls.crt --adapter-key tls.key"
)
SETTINGS = (
    *arguments.OF_BROKER,
    *arguments.OF_TOPICS,
    *arguments.OF_RESULTS,
    "lateness",
    "adapter_listen",
    "adapter_cert",
    "adapter_key",
    *arguments.OF_SERVICE,
)


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Settings are all that there is."""


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Answer until a signal."""
    from sinks.adapter.service import run as adapter  # here, not above: --help need not wait for it

    return run_service(adapter, "adapter", settings)
