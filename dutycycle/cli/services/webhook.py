"""``dutycycle webhook``: gives new pods priorities while the API server admits them."""

import argparse

from dutycycle.cli import arguments
from dutycycle.cli.service import run_service
from dutycycle.contract.settings.groups import Settings

EXAMPLE = "dutycycle webhook --broker kafka://kafka:9092 --webhook-policy policy.toml"
SETTINGS = (
    *arguments.OF_BROKER,
    *arguments.OF_TOPICS,
    *arguments.OF_RESULTS,
    "webhook_listen",
    "webhook_cert",
    "webhook_key",
    "webhook_client_ca",
    "webhook_policy",
    "webhook_team_label",
    "annotation_prefix",
    *arguments.OF_SERVICE,
)


def add_arguments(_parser: argparse.ArgumentParser) -> None:
    """Settings are all that there is."""


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Answer until a signal."""
    from sinks.scheduling.webhook.service import run as webhook  # here, not above: --help need not wait

    return run_service(webhook, "webhook", settings)
