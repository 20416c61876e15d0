"""Runs ``dutycycle stream``: a worker of the streams app; run as many as there are partitions."""

import argparse

from dutycycle.cli import arguments
from dutycycle.cli.garbage import collect_rarely, importing, release_llvm, share_heap
from dutycycle.cli.service import run_service
from dutycycle.contract.settings.groups import Settings

EXAMPLE = "dutycycle stream --broker kafka://kafka:9092 --windows 10s,60s --lateness 10s"
SETTINGS = (
    *arguments.OF_BROKER,
    *arguments.OF_TOPICS,
    *arguments.OF_RESULTS,
    *arguments.OF_OPERATORS,
    "windows_metrics",
    "snapshot_interval",
    "lost_state",
    *arguments.OF_WORKER,
    *arguments.OF_SERVICE,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add models; else settings are all that there is."""
    arguments.add_model(parser)


def run(_args: argparse.Namespace, settings: Settings) -> int:
    """Stream until a signal."""
    share_heap()
    with importing():  # here, not above: --help need not wait for it
        from streams.ahead import request_topics

        if settings.broker is not None:  # else it is refused below
            request_topics(settings)
        from streams.service import run as stream
    release_llvm()
    collect_rarely()
    return run_service(stream, "stream", settings)
