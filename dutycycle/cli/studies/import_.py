"""Runs ``dutycycle import``: makes a trace from the logs of other programs."""

import argparse
import re
from collections import Counter
from collections.abc import Callable
from datetime import tzinfo
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dutycycle.cli import arguments
from dutycycle.contract.errors import SettingError
from dutycycle.contract.settings import parsers
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import NAME_PATTERN

if TYPE_CHECKING:
    from dutycycle.imports.log_file import LogFile
    from dutycycle.imports.quantities import Reader

EXAMPLE = """dutycycle import nvidia-smi gpu-a.csv --zone Europe/Berlin --out gpu-a.jsonl.zst
dutycycle import dcgm-dmon dmon.txt --start 2026-11-20T10:00:00Z --node gpu-b --out gpu-b.jsonl.zst
dutycycle import wandb run-ab12cd34.wandb --out run.jsonl.zst"""
SETTINGS = ("topic_prefix",)
_PACKED = r"\.(gz|zst|xz|bz2)$"
_FORMATS = {
    "nvidia-smi": ("zone", "columns", "start", "interval", "decimal"),
    "dcgm-dmon": ("start", "interval"),
    "supercloud": (),
    "wandb": (),
}
"""With the flags that not all of them take."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to read, and how."""
    parser.add_argument(
        "format", choices=tuple(_FORMATS), metavar="FORMAT",
        help="nvidia-smi: CSV of nvidia-smi --query-gpu=timestamp,…, CSV or JSON of a script, or its "
        "table, repeated; dcgm-dmon: text of dcgmi dmon -e …; "
        "supercloud: GPU files of the MIT SuperCloud dataset; wandb: run-<id>.wandb of Weights & Biases",
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
        "--columns", metavar="NAMES",
        help="nvidia-smi: what --query-gpu had, for a log with noheader; or which column is what, where "
        "that is not found out: util=NAME,mem_used=NAME[GB],power=NAME,time=NAME",
    )  # fmt: skip
    parser.add_argument(
        "--start", metavar="TIME",
        help="when a log begins that has no times itself, such as 2026-11-20T10:00:00Z",
    )  # fmt: skip
    parser.add_argument(
        "--interval", type=arguments.duration_s, metavar="TIME",
        help="the time between the ticks of such a log (default: 1s)",
    )  # fmt: skip
    parser.add_argument(
        "--decimal", choices=("point", "comma"),
        help="nvidia-smi: what stands before the decimals of a log whose values do not tell: 1.234 may be a "
        "thousand",
    )  # fmt: skip


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Import; 0 when each file had right lines."""
    for flag in {flag: None for flags in _FORMATS.values() for flag in flags}:
        if getattr(args, flag) is not None and flag not in _FORMATS[args.format]:
            formats = [name for name, flags in _FORMATS.items() if flag in flags]
            raise SettingError(f"--{flag} is for {' and '.join(formats)} only")
    nodes = {file: args.node or Path(re.sub(_PACKED, "", Path(file).name)).stem for file in args.files}
    twice = [node for node, count in Counter(nodes.values()).items() if count > 1]
    if twice and args.node is None:
        raise SettingError(f"several files are named {twice[0]}: give --node if they are of one machine")
    if twice and (args.start is not None or args.format == "dcgm-dmon"):
        raise SettingError("--start is for one file: import the files of a machine one by one")
    for node in nodes.values():
        try:
            parsers.node(node)
        except ValueError as error:
            raise SettingError(f"{node!r} cannot name a node: give --node: {error}") from error
    reader = _reader(args)
    if args.job is not None and not re.fullmatch(NAME_PATTERN, args.job):
        raise SettingError(f"--job {args.job!r}: expected a name of letters, digits, '.', '_' and '-'")
    from dutycycle.imports.logs import import_logs  # here, not above: --help need not wait for it

    import_logs(
        nodes,
        reader,
        args.out,
        settings.topic_prefix,
        job=args.job,
        overwrite=args.force,
        own_nodes=args.node is None,
    )
    return 0


def _reader(args: argparse.Namespace) -> "Callable[[LogFile], Reader] | None":
    """Return what makes the reader of a file of lines; None where files are not of lines."""
    if args.format == "wandb":
        return None
    # here, not above: as in run
    from dutycycle.imports.dmon import DcgmDmonReader
    from dutycycle.imports.moments import Clock, Ticks
    from dutycycle.imports.nvidia_smi import SmiReader, look_through
    from dutycycle.imports.table.csv_log import CsvReader
    from dutycycle.imports.table.heading import read_column_choice
    from dutycycle.imports.table.json_log import JsonReader
    from dutycycle.imports.table.sniffer import Sniffer
    from dutycycle.imports.table.spellings import DecimalMark

    start_ms = None if args.start is None else arguments.moment_ms("--start", args.start, 0)
    interval_ms = round(1000 * (args.interval or 1))
    if args.format == "supercloud":
        return lambda _: CsvReader(Clock(start_ms=0), Ticks(None, interval_ms))
    if args.format == "dcgm-dmon":
        if start_ms is None:
            raise SettingError("the lines of dcgm-dmon have no time: give --start 2026-11-20T10:00:00Z")
        return lambda _: DcgmDmonReader(Ticks(start_ms, interval_ms))

    def clock_and_ticks() -> tuple[Clock, Ticks]:
        return Clock(args.zone, start_ms), Ticks(start_ms, interval_ms)

    def make_reader(log: "LogFile") -> "Reader":
        mark = DecimalMark({"point": ".", "comma": ","}.get(args.decimal))
        whole = look_through(log, Sniffer(choice, mark), mark)
        if log.is_json:
            return JsonReader(CsvReader(*clock_and_ticks(), choice, whole), whole.names)
        return SmiReader(*clock_and_ticks(), choice, whole)

    try:
        choice = None if args.columns is None else read_column_choice(args.columns)
        SmiReader(*clock_and_ticks(), choice)
    except ValueError as error:
        raise SettingError(f"--columns: {error}") from error
    return make_reader


def _zone(text: str) -> tzinfo:
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a time zone, such as Europe/Berlin") from error
