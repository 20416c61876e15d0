"""Runs ``dutycycle usage``: prints what was used, what was idle and what it cost, from the ledger."""

import argparse
from collections.abc import Callable, Mapping
from math import isnan
from typing import Any

from dutycycle.cli import arguments, history
from dutycycle.cli.printing import FORMATS, print_csv, print_json, print_table
from dutycycle.contract.errors import SettingError
from dutycycle.contract.records.hours import HOUR_MS
from dutycycle.contract.settings.groups import Settings
from dutycycle.contract.units import GIB, JOULES_PER_KWH
from sinks.records.location import default_records_url
from sinks.records.usage import (
    GROUPS,
    LEDGER_MEANS,
    USAGE_SUMS,
    LedgerMean,
    UsageQuery,
    group_text,
    is_part,
    usage,
)

EXAMPLE = """dutycycle usage --by team --since 7d
dutycycle usage --by namespace,day --since 30d --format csv > usage.csv"""
SETTINGS: tuple[str, ...] = ()
Row = Mapping[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what to add up, and how to print it."""
    parser.add_argument(
        "--by", default="namespace", metavar="NAME[,NAME]",
        help=f"what to add up by: {', '.join(GROUPS)}, or a label of pods that DUTYCYCLE_POD_LABELS keeps, "
        "such as team (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--since", default="7d", metavar="TIME",
        help="whole hours since, whole days where hours became days: 7d ago, or 2026-11-20T10:00:00Z "
        "(default: %(default)s)",
    )  # fmt: skip
    parser.add_argument("--until", metavar="TIME", help="where to end (default: now)")
    parser.add_argument("--namespace", metavar="NAME", help="only pods in this namespace")
    parser.add_argument("--format", choices=FORMATS, default="table", help="how to print (default: table)")
    arguments.add_records(parser)


def run(args: argparse.Namespace, settings: Settings) -> int:
    """Print the sums."""
    start_ms, end_ms = history.since_until(args)
    labels = tuple(filter(None, map(str.strip, args.by.split(","))))
    if not labels or len(set(labels)) < len(labels):
        raise SettingError(
            f"--by {args.by}: expected names, each once, separated by commas, such as team,day"
        )
    query = UsageQuery(
        by=labels, start_ms=start_ms // HOUR_MS * HOUR_MS, end_ms=end_ms, namespace=args.namespace
    )
    rows = usage(settings.records or default_records_url(), query)
    if args.format == "json":
        print_json(rows)
    elif args.format == "csv":
        print_csv((*query.columns, *USAGE_SUMS), rows)
    else:
        shown = [(header, cell) for header, cell in _COLUMNS if any(map(cell, rows))]
        cells = (
            [*(group_text(name, row[name]) for name in query.columns), *(cell(row) for _, cell in shown)]
            for row in rows
        )
        nothing = "nothing was used in this time, as far as is known"
        print_table([*query.columns, *(f"{header}>" for header, _ in shown)], cells, nothing)
    return 0


def _hours(name: str) -> Callable[[Row], str]:
    return lambda row: _number(row[name], 3600)


def _hours_if_any(name: str) -> Callable[[Row], str]:
    """Return what gives hours, and nothing where there are none."""
    return lambda row: _number(row[name] or None, 3600)


def _least(name: str, unit: float) -> Callable[[Row], str]:
    """Return what gives a sum; as the least that it is, where it is of a part of the GPU time alone."""

    def cell(row: Row) -> str:
        number = _number(row[name], unit)
        return f"≥ {number}" if number and is_part(row, name) else number

    return cell


def _share(mean: LedgerMean) -> Callable[[Row], str]:
    """Return what gives a mean in percent; nothing where it is not known."""
    return lambda row: "" if isnan(share := mean.of(row)) else f"{share:.0f} %"


def _number(value: float | None, unit: float) -> str:
    return "" if value is None else f"{value / unit:,.2f}"


_COLUMNS: tuple[tuple[str, Callable[[Row], str]], ...] = (
    ("GPU h", _hours("gpu_s")),
    ("busy", _hours("gpu_busy_s")),
    ("working", _hours("gpu_working_s")),
    ("idle", _hours("gpu_idle_s")),
    ("untouched", _hours_if_any("gpu_untouched_s")),
    ("unknown", _hours_if_any("gpu_unknown_s")),
    ("busy of it", _share(LEDGER_MEANS["gpu_util_pct"])),
    ("working of it", _share(LedgerMean("gpu_working_s", ("gpu_working_known_s",)))),
    ("SM of it", _share(LEDGER_MEANS["sm_active_pct"])),
    ("tensor of it", _share(LEDGER_MEANS["tensor_active_pct"])),
    ("requested", _hours("gpu_requested_s")),
    ("kWh", _least("energy_j", JOULES_PER_KWH)),
    ("CPU h", _hours("cpu_s")),
    ("requested", _hours("cpu_requested_s")),
    ("GiB h", lambda row: _number(row["mem_byte_s"], 3600 * GIB)),
    ("requested", lambda row: _number(row["mem_requested_byte_s"], 3600 * GIB)),
    ("cost", _least("cost", 1)),
)
"""Headers and cells; what is not known is empty, and what is known in part begins with "≥". Hours are of one
GPU, one CPU core, or a gibibyte of memory."""
