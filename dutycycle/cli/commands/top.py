"""Runs ``dutycycle top``: shows the live view of any broker."""

import argparse
import asyncio

from dutycycle.cli import arguments
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings

EXAMPLE = """dutycycle top --broker kafka://kafka:9092
dutycycle top --broker kafka://kafka:9092 --namespace ml --node gpu-a
dutycycle top --broker kafka://kafka:9092 --once --format json | jq '.jobs[] | {job, gpu_util_pct}'"""
SETTINGS = (
    *arguments.OF_BROKER, *arguments.OF_PAGE, *arguments.OF_PROMETHEUS, "signals", "records",
    "price_gpu_hour",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what is shown, and how."""
    parser.add_argument("--node", action="append", default=[], metavar="NAME", help="a node; again for more")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="its pods, their jobs and their GPUs alone")
    arguments.add_once(parser)
    arguments.add_timeout(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Watch until somebody leaves, or print one picture."""
    if settings.broker is None:
        raise SettingError("no broker to watch: give --broker kafka://host:9092 or DUTYCYCLE_BROKER")
    from dutycycle.live.model.state import LiveState  # here, not above: --help need not wait for it
    from dutycycle.live.top import once, top
    from dutycycle.web.page import with_page

    state = LiveState(nodes=tuple(args.node), namespace=args.namespace)
    if args.once:
        return asyncio.run(once(settings, state, args.format, args.timeout))
    return asyncio.run(top(settings, state, with_page))
