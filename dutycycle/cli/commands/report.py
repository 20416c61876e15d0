"""``dutycycle report``: a trace as one page, with pictures and tables."""

import argparse
import sys
import time
from pathlib import Path

from contract.settings.groups import Settings
from dutycycle.cli import arguments

EXAMPLE = """dutycycle report day.jsonl.zst --out day.html
dutycycle report day.jsonl.zst --job bert --price-gpu-hour 2.5 --out bert.html"""
SETTINGS = ("topic_prefix", *arguments.OF_OPERATORS, "price_gpu_hour", "price_kwh")
_EVERY_S = 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Traces, whose report, and where it goes."""
    parser.add_argument(
        "trace", nargs="+", metavar="TRACE", help="trace files, one after the other; - is stdin"
    )
    whose = parser.add_mutually_exclusive_group()
    whose.add_argument("--job", metavar="NAME", help="only this job: its name, namespace/name or uid")
    whose.add_argument("--pod", metavar="NAME", help="only this pod: its name, namespace/name or uid")
    parser.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("report.html"),
        help="the page; pictures and tables are in a folder beside it (default: report.html, report.files)",
    )  # fmt: skip
    arguments.add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Read, compute and write; 0 when there is a report."""
    from dutycycle.report.build import (
        check_out,
        gather,
        report_of,
        write_report,
    )  # here: --help need not wait

    check_out(args.out, overwrite=args.force)
    gathered = gather(args.trace, settings, _Progress().tell)
    source = ", ".join("standard input" if one == "-" else Path(one).name for one in args.trace)
    report = report_of(gathered, settings, source, job=args.job, pod=args.pod)
    folder = write_report(report, args.out)
    print(f"{args.out}: the report; pictures and tables are in {folder}")  # noqa: T201
    return 0


class _Progress:
    """Says on a terminal how far the reading is, where that takes long."""

    def __init__(self) -> None:
        self._due = time.monotonic() + _EVERY_S
        self._shown = sys.stderr.isatty()

    def tell(self, number: int) -> None:
        """``number`` samples were read."""
        if self._shown and number % 1000 == 0 and time.monotonic() >= self._due:
            self._due += _EVERY_S
            print(f"\r{number} samples read …\033[K", end="", file=sys.stderr, flush=True)  # noqa: T201
