"""Lays out a table as a list of columns: which ones have room, in which order the rows are, and each row as a
line."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dutycycle.live.model.state import LiveState
from dutycycle.live.views.spans import Line, Span, fit

R = TypeVar("R")
_GAP: Span = (" ", "")
_EXTRA = 3
Order = float | str | tuple[str, int, str]


@dataclass(frozen=True)
class TableColumn(Generic[R]):
    """Describes one column. ``cell`` makes a cell for the width that there is, ``order`` a key for sorting.

    ``rank``: columns of a higher one are left out first where there is no room; one from 3 on is not shown
    before all others have their ``comfort``. ``grows``: up to which width it takes what is left over. Figures
    are at the right and begin with the largest when sorted.
    """

    title: str
    width: int
    cell: Callable[[R, int], Line]
    order: Callable[[R], Order | None]
    rank: int = 0
    comfort: int = 0
    grows: int = 0
    right: bool = False
    descending: bool = False


@dataclass(frozen=True)
class TableLayout(Generic[R]):
    """Holds the columns that have room, each with its width."""

    columns: Sequence[tuple[TableColumn[R], int]]

    def header(self, sort: str, *, reverse: bool) -> Line:
        """Return the titles; the column that is sorted by has an arrow."""
        line: Line = []
        for column, width in self.columns:
            down = column.descending != reverse
            text = column.title + ("▾" if down else "▴") * (column.title == sort)
            line += [*fit([(text, "bold")], width, right=column.right), _GAP]
        return line[:-1]

    def row(self, row: R) -> Line:
        """Return one row."""
        line: Line = []
        for column, width in self.columns:
            line += [*fit(column.cell(row, width), width, right=column.right), _GAP]
        return line[:-1]

    def column_at(self, x: int) -> TableColumn[R] | None:
        """Return the column whose title is at cell ``x``."""
        begin = 0
        for column, width in self.columns:
            if begin <= x < begin + width:
                return column
            begin += width + 1
        return None


def layout(columns: Sequence[TableColumn[R]], width: int) -> TableLayout[R]:
    """Fit columns into ``width`` cells: the least important ones leave, the rest grow into what is left."""
    kept = list(columns)
    while len(kept) > 1:
        is_extra = max(column.rank for column in kept) >= _EXTRA
        needed = sum(max(column.width, column.comfort if is_extra else 0) for column in kept) + len(kept) - 1
        if needed <= width:
            break
        kept.remove(max(reversed(kept), key=lambda column: column.rank))
    widths = [column.width for column in kept]
    left = width - sum(widths) - len(kept) + 1
    for most in ([column.comfort for column in kept], [column.grows for column in kept]):
        # What is left goes to all that have less than their most, in turn.
        while left > 0 and (growing := [at for at, wide in enumerate(widths) if wide < most[at]]):
            for at in growing[:left]:
                widths[at] += 1
            left -= min(len(growing), left)
    return TableLayout(list(zip(kept, widths, strict=True)))


def sort_rows(rows: Sequence[R], column: TableColumn[R], *, reverse: bool) -> list[R]:
    """Sort in the order of a column; rows whose value is not known come last."""
    known = [(order, row) for row in rows if (order := column.order(row)) is not None]
    ordered_rows = {id(row) for _, row in known}
    ordered = sorted(known, key=lambda pair: pair[0], reverse=column.descending != reverse)
    return [row for _, row in ordered] + [row for row in rows if id(row) not in ordered_rows]


@dataclass(frozen=True, slots=True)
class TableView:
    """Describes a table. ``title`` is on its tab. ``rows`` are in their natural order; ``subject``: the key
    of what a row is about; ``text``: what a filter looks at; ``empty``: instead of rows."""

    title: str
    rows: Callable[[LiveState], Sequence[Any]]
    columns: Callable[[LiveState], Sequence[TableColumn[Any]]]
    key: Callable[[Any], str]
    subject: Callable[[Any], str]
    text: Callable[[LiveState, Any], str]
    empty: str

    def matching(self, state: LiveState, words: str) -> Sequence[Any]:
        """Return the rows in which all ``words`` are, in capitals or not."""
        rows = self.rows(state)
        wanted = words.lower().split()
        if not wanted:
            return rows
        return [row for row in rows if all(word in self.text(state, row).lower() for word in wanted)]
