"""Prints records on stdout: a table for people, JSON or CSV for programs."""

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

FORMATS = ("table", "json", "csv")
_PIPED_WIDTH = 240


def print_json(records: Sequence[Any]) -> None:
    """Print an array of plain values."""
    sys.stdout.buffer.write(orjson.dumps(records, option=orjson.OPT_INDENT_2) + b"\n")


def print_csv(fields: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Print a line of names, and a line for each row."""
    writer = csv.DictWriter(sys.stdout, fields)
    writer.writeheader()
    writer.writerows(rows)


def print_table(table: Table, nothing: str) -> None:
    """Print the table, or ``nothing`` for one without rows."""
    # Piped into less or grep a line stays a line; on a terminal it is cut to what fits.
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    # What others called a pod or node is text, whatever stands in brackets or between colons.
    console = Console(width=width, markup=False, emoji=False)
    console.print(table if table.row_count else nothing)
