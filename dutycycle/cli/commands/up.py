"""Runs ``dutycycle up``: everything on this machine, in one command."""

import argparse
import asyncio

from dutycycle.cli import arguments
from dutycycle.cli.arguments import duration_s
from dutycycle.contract.settings.groups import Settings

EXAMPLE = """dutycycle up --demo
dutycycle up --once --format json | jq '.gpus[].gpu_util_pct'
dutycycle up --duration 10s && dutycycle peaks"""
_NODE = tuple(name for name in arguments.OF_NODE if name not in ("containers", "demo"))
SETTINGS = (
    *arguments.OF_BROKER, *_NODE, *arguments.OF_PROMETHEUS, *arguments.OF_RESULTS, *arguments.OF_OPERATORS,
    "windows_metrics", "annotations",
    "annotation_prefix", "signals", *arguments.OF_PAGE, "price_gpu_hour",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add how long, and where the records go."""
    parser.add_argument(
        "--duration",
        type=duration_s,
        metavar="TIME",
        help="stop after this time, such as 20s, counted from when the streams are ready",
    )
    parser.add_argument(
        "--demo", dest="setting_demo", action="store_const", const="on",
        help="watch eight simulated GPUs with known jobs, instead of this machine",
    )  # fmt: skip
    arguments.add_once(parser)
    arguments.add_containers(parser)
    arguments.add_records(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run until a signal or the duration."""
    from dutycycle.live.up import up  # here, not above: --help need not wait for it
    from dutycycle.web.page import with_page

    once = args.format if args.once else None
    return asyncio.run(up(settings, arguments.given_settings(args), with_page, args.duration, once))
