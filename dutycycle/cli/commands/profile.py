"""``dutycycle profile``: what a profile of Nsight Systems or PyTorch says."""

import argparse
import sys
from pathlib import Path

from contract.settings.groups import Settings
from dutycycle.status_line import StatusLine

EXAMPLE = """nsys export --type sqlite report1.nsys-rep && dutycycle profile report1.sqlite
dutycycle profile rank0.pt.trace.json.gz --rows 5
dutycycle profile report1.sqlite --format json | jq .bottleneck"""
SETTINGS = ()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, and in which form what is found is printed."""
    parser.add_argument(
        "profile", metavar="FILE", type=Path,
        help="an SQLite export of Nsight Systems, or a trace of PyTorch's profiler (*.json, *.json.gz)",
    )  # fmt: skip
    parser.add_argument("--format", choices=("table", "json"), default="table", help="(default: table)")
    parser.add_argument(
        "--rows", type=_rows, default=12, metavar="N", help="rows of each table, at most (default: 12)"
    )


def run(args: argparse.Namespace, _settings: Settings) -> int:
    """Read it and print; 0 when there was something to read."""
    from dutycycle.profile.profile import read  # here: --help need not wait

    with StatusLine(quiet_s=2.0, every_s=0.5) as status:
        profile = read(args.profile, lambda doing: status.show(f"reading {doing} …"))
    if args.format == "json":
        import orjson

        sys.stdout.buffer.write(orjson.dumps(profile.plain(), option=orjson.OPT_INDENT_2) + b"\n")
    else:
        from dutycycle.profile.terminal import show

        show(profile, sys.stdout, args.rows)
    return 0


def _rows(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1 on")
    return int(text)
