"""Runs ``dutycycle demo``: makes a trace of eight simulated GPUs with known jobs, to try everything else
on."""

import argparse
import sys
import time
from dataclasses import replace

from dutycycle.cli import arguments
from dutycycle.cli.arguments import duration_s, moment_ms
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings.groups import Settings

EXAMPLE = """dutycycle demo > day.jsonl.zst
dutycycle demo --duration 10m | dutycycle replay - --out derived.jsonl
dutycycle demo --out demo.jsonl.gz --start 2026-11-20T10:00:00Z --seed 7"""
SETTINGS = ("node", "interval", "topic_prefix")
_DURATION_S = 7200.0
_MOST_TICKS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say how long the trace is, when it begins, and where it goes."""
    parser.add_argument(
        "--out", default="-", metavar="TRACE",
        help="file to write (.gz, .zst by suffix; default: standard output, compressed by zstd)",
    )  # fmt: skip
    arguments.add_force(parser)
    parser.add_argument(
        "--duration", type=duration_s, default=_DURATION_S, metavar="TIME", help="its length (default: 2h)"
    )
    parser.add_argument(
        "--start", metavar="TIME",
        help="its first moment, such as 2026-11-20T10:00:00Z (default: so that it ends now)",
    )  # fmt: skip
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="of its noise (default: 0); the jobs stay the same"
    )


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Write the trace: the same bytes for the same start, duration, interval and seed."""
    ticks = round(args.duration / settings.interval)
    if not 1 <= ticks <= _MOST_TICKS:
        raise SettingError(
            f"--duration {args.duration:g} s at an interval of {settings.interval:g} s are {ticks:,} ticks: "
            f"expected 1 to {_MOST_TICKS:,}"
        )
    if args.out == "-" and sys.stdout.isatty():
        raise SettingError("the trace is compressed: give --out demo.jsonl.zst, or > demo.jsonl.zst")
    now_ms = time.time_ns() // 1_000_000
    start_ms = now_ms - round(1000 * args.duration)
    if args.start is not None:
        start_ms = moment_ms("--start", args.start, now_ms)
    from dutycycle.traces.demo import write_demo  # here, not above: --help need not wait for it

    settings = replace(settings, node=arguments.given_settings(args).get("node", "demo"))
    write_demo(
        args.out, settings, ticks=ticks, start_ms=start_ms, seed=args.seed,
        overwrite=args.force,
    )  # fmt: skip
    return 0
