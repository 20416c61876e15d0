"""``dutycycle up``: everything on this machine, in one command."""

import argparse
import asyncio

from contract.settings.settings import Settings
from dutycycle.cli import flags
from dutycycle.moments import duration_s

EXAMPLE = """dutycycle up
dutycycle up --duration 20s && dutycycle peaks"""
_NODE = tuple(name for name in flags.NODE if name != "containers")
SETTINGS = (*flags.BROKER, *_NODE, *flags.OPERATORS, "annotations", "annotation_prefix")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How long, and where the records go."""
    parser.add_argument(
        "--duration", type=duration_s, metavar="TIME", help="stop by itself after so long, such as 20s"
    )
    flags.add_containers(parser)
    flags.add_records(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run until a signal or the duration."""
    from dutycycle.live.up import up  # here, not above: --help need not wait for it

    return asyncio.run(up(settings, flags.given(args), args.duration))
