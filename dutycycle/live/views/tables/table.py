"""Describes one table of the screen: which rows, which columns, and what is said where there are none."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dutycycle.live.model.state import LiveState
from dutycycle.live.views.tables.columns import TableColumn


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
