"""Prints a profile on a terminal: the verdict, then tables as ``nsys stats`` prints them."""

from typing import TextIO

from rich import box
from rich.console import Console, JustifyMethod
from rich.table import Table as RichTable
from rich.text import Text

from dutycycle.profile.verdict import GPU_TIME
from dutycycle.report.profiled import TEXTS, Profile, cell_text
from dutycycle.words import capitalized

_NARROW = 130
_LEFT_OUT = ("Med", "Min", "Max", "StdDev")
"""Columns of figures that a narrow terminal has no room for."""
_OF_A_FILE = 200
_LONG = frozenset({"Name", "Range", "Largest Kernel"})
_LEAST, _GAP = 20, 3


def show(profile: Profile, out: TextIO, rows: int) -> None:
    """Print it, of each table so many rows; the width of a file is fixed, that of a terminal its own."""
    console = Console(file=out, width=None if out.isatty() else _OF_A_FILE, highlight=False, soft_wrap=False)
    console.print(Text(f"{profile.source}, {profile.product}: {profile.headline()}", "bold"))
    if profile.advice:
        console.print(Text(capitalized(profile.advice)))
    if profile.evidence:
        console.print(
            Text("Evidence: " + ", ".join(f"{name} {value}" for name, value in profile.figures()), "dim")
        )
    for note in profile.notes:
        console.print(Text(f"Note: {note}", "yellow"))
    for table in profile.tables:
        console.print()
        most = len(table.rows) if table.title == GPU_TIME else rows
        places = [
            place
            for place, name in enumerate(table.columns)
            if not (console.width < _NARROW and name.startswith(_LEFT_OUT))
        ]
        texts = [
            [cell_text(table.columns[place], row[place]) for place in places] for row in table.rows[:most]
        ]
        names = [table.columns[place] for place in places]
        widths = [max(map(len, column)) for column in zip(names, *texts, strict=True)]
        taken = sum(wide for name, wide in zip(names, widths, strict=True) if name not in _LONG)
        longest = max(console.width - taken - _GAP * len(names), _LEAST)
        shown = RichTable(title=table.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for name, wide in zip(names, widths, strict=True):
            justify: JustifyMethod = "left" if name in TEXTS else "right"
            width = min(wide, longest) if name in _LONG else wide
            shown.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", width=width)
        for cells in texts:
            shown.add_row(*map(Text, cells))
        console.print(shown)
        if len(table.rows) > most:
            console.print(Text(f" … and {len(table.rows) - most} more; --rows shows more", "dim"))
