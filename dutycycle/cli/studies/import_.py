"""``dutycycle import``: a trace from the logs of other programs."""

import argparse
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, tzinfo
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dutycycle.cli import arguments
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings import parsers
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import NAME_PATTERN

if TYPE_CHECKING:
    from dutycycle.imports.columns import Reader

EXAMPLE = """dutycycle import nvidia-smi gpu-a.csv --zone Europe/Berlin --out gpu-a.jsonl.zst
dutycycle import dcgm-dmon dmon.txt --start 2026-11-20T10:00:00Z --node gpu-b --out gpu-b.jsonl.zst
dutycycle import supercloud gpu/0001/*.csv --out jobs.jsonl.zst"""
SETTINGS = ("topic_prefix",)
_FORMATS = {
    "nvidia-smi": ("zone", "columns"),
    "dcgm-dmon": ("start", "interval"),
    "supercloud": (),
}
"""With the flags that each of them alone takes."""
_ONLY = {flag: name for name, flags in _FORMATS.items() for flag in flags}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to read, and how."""
    parser.add_argument(
        "format", choices=tuple(_FORMATS), metavar="FORMAT",
        help="nvidia-smi: CSV of nvidia-smi --query-gpu=timestamp,…; dcgm-dmon: text of dcgmi dmon -e …; "
        "supercloud: GPU files of the MIT SuperCloud dataset",
    )  # fmt: skip
    parser.add_argument("files", nargs="+", metavar="FILE", help="logs")
    parser.add_argument(
        "--out", required=True, metavar="TRACE", help="file to write (.gz, .zst by suffix); - is stdout"
    )
    arguments.add_force(parser)
    parser.add_argument(
        "--node", metavar="NAME",
        help="the machine that all files are of (default: each of one that is named as the file is)",
    )  # fmt: skip
    parser.add_argument(
        "--job", metavar="NAME",
        help="all GPUs of all files belong to a job of this name, which then has peaks and an insight",
    )  # fmt: skip
    parser.add_argument(
        "--zone", type=_zone, metavar="ZONE",
        help="nvidia-smi: the time zone of the machine, such as Europe/Berlin (default: UTC)",
    )  # fmt: skip
    parser.add_argument(
        "--columns", metavar="NAMES", help="nvidia-smi: what --query-gpu had, for a log with noheader"
    )
    parser.add_argument(
        "--start", metavar="TIME",
        help="dcgm-dmon: when the log begins, such as 2026-11-20T10:00:00Z: it has no times itself",
    )  # fmt: skip
    parser.add_argument(
        "--interval", type=arguments.duration_s, metavar="TIME",
        help="dcgm-dmon: the time between ticks, its -d (default: 1s)",
    )  # fmt: skip


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Import; 0 when each file had right lines."""
    for flag, only in _ONLY.items():
        if getattr(args, flag) is not None and args.format != only:
            raise SettingError(f"--{flag} is for {only} only")
    files, reader = _files(args), _reader(args)
    if args.job is not None and not re.fullmatch(NAME_PATTERN, args.job):
        raise SettingError(f"--job {args.job!r}: expected a name of letters, digits, '.', '_' and '-'")
    from dutycycle.imports.logs import import_logs  # here, not above: --help need not wait for it

    import_logs(files, reader, args.out, settings.topic_prefix, job=args.job, overwrite=args.force)
    return 0


def _files(args: argparse.Namespace) -> dict[str, str]:
    """The files, each with its node."""
    nodes = {file: args.node or Path(file).stem for file in args.files}
    twice = [node for node, count in Counter(nodes.values()).items() if count > 1]
    if twice and args.node is None:
        raise SettingError(f"several files are named {twice[0]}: give --node if they are of one machine")
    if twice and args.format == "dcgm-dmon":
        raise SettingError("--start is for one file: import the files of a machine one by one")
    for node in nodes.values():
        try:
            parsers.node(node)
        except ValueError as error:
            raise SettingError(f"{node!r} cannot name a node: give --node: {error}") from error
    return nodes


def _reader(args: argparse.Namespace) -> "Callable[[], Reader]":
    from dutycycle.imports import dcgm_dmon, nvidia_smi, supercloud  # here, not above: as in run

    if args.format == "supercloud":
        return supercloud.reader
    if args.format == "dcgm-dmon":
        start_ms, interval_ms = _start_ms(args.start), round(1000 * (args.interval or 1))
        return lambda: dcgm_dmon.DmonReader(start_ms, interval_ms)
    try:
        nvidia_smi.reader(UTC, args.columns)
    except ValueError as error:
        raise SettingError(f"--columns: {error}") from error
    return lambda: nvidia_smi.reader(args.zone or UTC, args.columns)


def _start_ms(text: str | None) -> int:
    if text is None:
        raise SettingError("the lines of dcgm-dmon have no time: give --start 2026-11-20T10:00:00Z")
    try:
        return arguments.moment_ms(text, 0)
    except ValueError as error:
        raise SettingError(f"--start {error}") from error


def _zone(text: str) -> tzinfo:
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a time zone, such as Europe/Berlin") from error
