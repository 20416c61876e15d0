"""``dutycycle run``: a command on this machine, measured from start to end."""

import argparse
import logging
from pathlib import Path

from contract.errors import SettingError
from contract.settings.groups import Settings
from dutycycle.cli import arguments

EXAMPLE = """dutycycle run -- python train.py --epochs 3
dutycycle run --interval 200ms --out bert -- torchrun --nproc-per-node 8 train.py"""
SETTINGS = ("node", "interval", *arguments.OF_OPERATORS, "price_gpu_hour", "price_kwh")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command, and where its report goes."""
    parser.add_argument(
        "--out", metavar="DIR", type=Path,
        help="an empty or new folder for the report and the trace (default: one in your state directory)",
    )  # fmt: skip
    parser.add_argument("program", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="what to run")


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Run it; its exit status."""
    command = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not command:
        raise SettingError("run: give a command, such as: dutycycle run -- python train.py")
    if not args.verbose:  # what could not be measured is said at the end, not within the command's output
        logging.getLogger("dutycycle").setLevel(logging.CRITICAL)
    from dutycycle.run.run import run_command  # here, not above: --help need not wait for it

    return run_command(command, settings, args.out)
