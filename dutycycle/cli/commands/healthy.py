"""Runs ``dutycycle healthy``: asks a running process whether it is healthy, for probes and people."""

import argparse
import sys

from dutycycle.contract.settings.groups import Settings
from dutycycle.telemetry.endpoint import PORTS, AskError, ask, where

EXAMPLE = """dutycycle healthy stream
dutycycle healthy --ready 127.0.0.1:19470
dutycycle healthy --metrics collect | grep spool"""
SETTINGS: tuple[str, ...] = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add whom to ask, and what."""
    parser.add_argument(
        "whom", metavar="WHOM",
        help=f"{', '.join(PORTS)} (where DUTYCYCLE_LISTEN says, or at its default port), or host:port",
    )  # fmt: skip
    page = parser.add_mutually_exclusive_group()
    page.add_argument(
        "--ready",
        action="store_true",
        help="ask whether it is ready: not waiting for a broker, a database or an assignment",
    )
    page.add_argument("--metrics", action="store_true", help="print its metrics, as Prometheus reads them")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Ask, and return 0 when the process is well; 1, and why, when it is not, or does not answer."""
    path = "/metrics" if args.metrics else "/readyz" if args.ready else "/healthz"
    token = settings.listen_token.now() if settings.listen_token is not None and args.metrics else None
    address = where(args.whom, settings.listen)
    status, text = ask(address, path, tls=settings.listen_cert is not None, token=token)
    if status != 200:
        raise AskError(text.strip())
    sys.stdout.write(text)
    return 0
