"""Finds what only all lines of a table tell together, in a pass of its own before its values are read."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from dutycycle.imports.moments import find_moment, is_since_1970
from dutycycle.imports.quantities import Column, Notes, is_measured
from dutycycle.imports.table.heading import (
    ColumnChoice,
    Heading,
    HeadingReader,
    WholeLog,
    split_cells,
    with_usual_widths,
)
from dutycycle.imports.table.spellings import DecimalMark

_ROUNDED_PCT, _SOME_MEMORY = 0.51, 0.02
_MOST_GPUS = 20
"""A machine has fewer: more rows below one time were written later, by a loop."""
_MOST_INDEX = 63
"""No machine has GPUs of larger numbers."""


@dataclass
class _MemoryShare:
    """Compares a column with the share of memory in use beside it: ``differs`` in some row; ``is_seen`` to be
    the same where it is no 0."""

    differs: bool = False
    is_seen: bool = False

    def compare(self, value: float | None, used: float | None, total: float | None) -> None:
        """Take a row. Either may be rounded to whole percent."""
        if value is None or used is None or not total:
            return
        share = used / total
        is_same = abs(value - 100 * share) <= _ROUNDED_PCT or abs(value - share) <= _ROUNDED_PCT / 100
        self.differs = self.differs or not is_same
        self.is_seen = self.is_seen or (is_same and share >= _SOME_MEMORY)


@dataclass
class _Load:
    """Looks whether the values of a column ``GPU`` are its utilization: percentages, or larger than the
    number of any GPU, or broken. ``fits``: all of them may be. ``counts``: they count up from 0 or 1, over
    and over, as the GPUs of a whole cluster are numbered."""

    fits: bool = True
    counts: bool = True
    begin: float | None = None
    before: float = -1.0
    most: float = 0.0
    is_broken: bool = False
    is_pct: bool = False

    def note_value(self, cell: str) -> None:
        """Take a value that was measured."""
        self.is_pct = self.is_pct or cell.endswith("%")
        try:
            value = float(cell.removesuffix("%"))
        except ValueError:
            self.fits = False
            return
        self.begin = value if self.begin is None else self.begin
        self.counts = self.counts and self.begin <= 1 and value in (self.before + 1, self.begin)
        self.before = value
        self.fits = self.fits and 0 <= value <= 100
        self.most = max(self.most, value)
        self.is_broken = self.is_broken or not value.is_integer()

    @property
    def unit(self) -> str | None:
        """Return the unit of a utilization; None where it may be the number of a GPU."""
        is_no_index = self.is_pct or self.is_broken or (self.most > _MOST_INDEX and not self.counts)
        if not self.fits or not is_no_index:
            return None
        return "ratio" if self.most <= 1 and not self.is_pct else "%"


class Sniffer:
    """Takes the lines of a table, of which wrong ones tell nothing: whoever reads the values names them.

    ``decimal``: the mark before decimals, as it was given; the amounts tell it else.
    """

    def __init__(self, choice: ColumnChoice | None, decimal: DecimalMark) -> None:
        self._notes = Notes()
        # Whether the log's times are known is not known yet, and not needed for what its amounts tell.
        self._headings = HeadingReader(self._notes, choice, WholeLog(), has_start=True)
        self._is_loop = False
        self._moments = self._rows_below = 0
        self._decimal = decimal
        self._heading: Heading | None = None
        self._memory_shares: defaultdict[str, _MemoryShare] = defaultdict(_MemoryShare)
        self._loads: defaultdict[str, _Load] = defaultdict(_Load)
        self._epochs: set[str] = set()
        if choice and choice.heading is not None:
            self.take_heading(split_cells(choice.heading, ","))

    @property
    def delimiter(self) -> str | None:
        """Return what stands between the values; None before a heading was read."""
        return self._heading.delimiter if self._heading else None

    def take_line(self, line: str) -> None:
        """Take a line of a text."""
        heading = self._heading
        if find_moment(line) is not None:
            self._moments, self._rows_below = self._moments + 1, 0
            return
        if heading is not None and not heading.tells_subject and not line[:1].isalpha():
            self._rows_below += 1
            self._is_loop = self._is_loop or self._rows_below > _MOST_GPUS
        is_plain = (
            heading is not None and heading.delimiter == ","
            and line[:1].isdigit() and line.isascii() and '"' not in line
        )  # fmt: skip
        if heading and is_plain and not (
            heading.bare_percentages or heading.shares_of_memory or heading.possible_load
            or set(heading.unused_epochs.values()) - self._epochs
        ):  # fmt: skip
            return  # no heading, and no amount with a comma: most lines
        line = with_usual_widths(line)
        names, delimiter = self._headings.find(line, heading)
        if names is not None:
            self.take_heading(names, delimiter)
        elif heading is not None:
            cells = heading.split_row(line)
            if len(cells) != heading.width:
                return
            if not is_plain:
                for position in heading.amounts:
                    self._decimal.note_amount(cells[position])
            self.take_cells([cell.replace(",", ".") for cell in cells])

    def take_heading(self, names: Sequence[str], delimiter: str = ",") -> None:
        """Take the names of the columns of what follows."""
        try:
            self._heading = self._headings.read(names, delimiter)
        except ValueError:
            self._heading = None

    def take_cells(self, cells: Sequence[str]) -> None:
        """Let the percentages of a row tell whether they are shares of 1, and which are of the memory."""
        if self._heading is None:
            return
        for position, name in self._heading.unused_epochs.items():
            if is_since_1970(cells[position]):
                self._epochs.add(name)
        for position, column in self._heading.bare_percentages:
            _read_or_none(column, cells[position])  # which notes the value
        if self._heading.possible_load is not None:
            position, column = self._heading.possible_load
            if is_measured(cells[position]):
                self._loads[column.name].note_value(cells[position])
        for of_gpu in self._heading.shares_of_memory:
            value, used, total = (
                _read_or_none(of_gpu[name][1], cells[of_gpu[name][0]]) if name in of_gpu else None
                for name in ("mem_copy_util_pct", "mem_used_bytes", "mem_total_bytes")
            )
            self._memory_shares[of_gpu["mem_copy_util_pct"][1].name].compare(value, used, total)

    def find_whole(self) -> WholeLog:
        """Give what the lines have told."""
        of_memory = {
            name for name, share in self._memory_shares.items() if share.is_seen and not share.differs
        }
        loads = {name: unit for name, load in self._loads.items() if (unit := load.unit) is not None}
        return WholeLog(
            self._decimal, self._notes.shares_of_one(), of_memory, loads, self._epochs,
            moments=0 if self._is_loop else self._moments,
        )  # fmt: skip


def _read_or_none(column: Column, cell: str) -> float | None:
    try:
        value: float | None = column.read_value(cell)
    except ValueError:
        return None
    return value
