"""Prints records on stdout: a table for people, JSON or CSV for programs."""

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from rich.console import Console, JustifyMethod
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


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], nothing: str) -> None:
    """Print the rows below their headers, or ``nothing`` without any. A header that ends in ``>`` puts its
    column to the right. Where there is no room, the last column breaks into lines, and the others are cut."""
    table = Table(box=None, pad_edge=False)
    for place, header in enumerate(headers, 1):
        justify: JustifyMethod = "right" if header.endswith(">") else "left"
        table.add_column(header.removesuffix(">"), justify=justify, no_wrap=place < len(headers))
    for row in rows:
        table.add_row(*row)
    # Piped into less or grep a line stays a line; on a terminal it is cut to what fits.
    width = None if sys.stdout.isatty() else _PIPED_WIDTH
    # What others called a pod or node is text, whatever stands in brackets or between colons.
    console = Console(width=width, markup=False, emoji=False)
    console.print(table if table.row_count else nothing)
