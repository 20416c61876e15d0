"""``dutycycle profile``: what a profile of Nsight Systems or PyTorch says."""

import argparse
import sys
import time
from pathlib import Path

from contract.settings.groups import Settings

EXAMPLE = """nsys export --type sqlite report1.nsys-rep && dutycycle profile report1.sqlite
dutycycle profile rank0.pt.trace.json.gz --rows 5
dutycycle profile report1.sqlite --format json | jq .bottleneck"""
SETTINGS = ()
_EVERY_S = 2.0


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

    progress = Progress()
    profile = read(args.profile, progress.tell)
    progress.clear()
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


class Progress:
    """Says on a terminal what is being read, where that takes long."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _EVERY_S
        self._shown = sys.stderr.isatty()
        self._said = False

    def tell(self, doing: str) -> None:
        """``doing`` is what is read now."""
        if self._shown and time.monotonic() >= self._due:
            self._due += _EVERY_S / 4
            self._said = True
            print(f"\rreading {doing} …\033[K", end="", file=sys.stderr, flush=True)  # noqa: T201

    def clear(self) -> None:
        """Before anything else is printed."""
        if self._said:
            print("\r\033[K", end="", file=sys.stderr, flush=True)  # noqa: T201
