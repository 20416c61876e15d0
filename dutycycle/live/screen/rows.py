"""Draws a table with a cursor that stays on its subject, whatever is sorted, filtered or scrolled."""

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from dutycycle.live.model.state import LiveState
from dutycycle.live.screen.drawing import Lines
from dutycycle.live.views.spans import Line
from dutycycle.live.views.tables.columns import TableLayout, TableView, layout, sort_rows
from dutycycle.live.views.tables.gpus import GPUS


class Rows(Lines):
    """Draws the rows of one ``TableView``; only those that are seen are made into lines."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "page(-1)", "page up", show=False),
        Binding("pagedown", "page(1)", "page down", show=False),
        Binding("home", "move(-1000000)", "first", show=False),
        Binding("end,G", "move(1000000)", "last", show=False),
        Binding("enter", "open", "more"),
    ]

    class Opened(Message):
        """Says that somebody wants to know more of a subject."""

        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    class Moved(Message):
        """Says that the cursor is on another row."""

    def __init__(self) -> None:
        super().__init__()
        self.view: TableView = GPUS
        self.words = ""
        """The filter."""
        self._state = LiveState()
        self._rows: Sequence[Any] = ()
        self._layout: TableLayout[Any] = TableLayout(())
        self._sorts: dict[str, tuple[str, bool]] = {}
        """By title of the view: the column it is sorted by, and whether in reverse."""
        self._cursors: dict[str, str] = {}
        """By title of the view: the key of the row that the cursor is on."""
        self.cursor = 0
        """The place of that row; the first one where it is gone."""

    @property
    def sort(self) -> tuple[str, bool]:
        """Return the title of the column, empty for the natural order, and whether it is reversed."""
        return self._sorts.get(self.view.title, ("", False))

    def show(self, state: LiveState) -> None:
        """Take the rows as they are now."""
        self._state = state
        columns = self.view.columns(state)
        rows = self.view.matching(state, self.words)
        title, reverse = self.sort
        by = next((column for column in columns if column.title == title), None)
        self._rows = rows if by is None else sort_rows(rows, by, reverse=reverse)
        self._layout = layout(columns, self.room)
        wanted = self._cursors.get(self.view.title)
        self.cursor = next((at for at, row in enumerate(self._rows) if self.view.key(row) == wanted), 0)
        self.redraw()

    def sort_by(self, step: int) -> None:
        """Sort by the next column, or the one before; at the end comes the natural order."""
        titles = ["", *(column.title for column, _ in self._layout.columns)]
        at = titles.index(self.sort[0]) if self.sort[0] in titles else 0
        self._sorts[self.view.title] = (titles[(at + step) % len(titles)], False)
        self.show(self._state)

    def reverse(self) -> None:
        """Sort the other way round."""
        title, reverse = self.sort
        self._sorts[self.view.title] = (title or self._layout.columns[0][0].title, not reverse)
        self.show(self._state)

    def head(self) -> list[Line]:
        """Return the titles."""
        title, reverse = self.sort
        return [self._layout.header(title, reverse=reverse)]

    def count(self) -> int:
        """Return how many rows there are, or one for the line that says why there are none."""
        return len(self._rows) or 1

    def line(self, number: int) -> Line:
        """Return a row; the first cell of the one that the cursor is on stands out."""
        if not self._rows:
            return [(f"nothing matches {self.words!r}" if self.words else self.view.empty, "dim")]
        line = self._layout.row(self._rows[number])
        if number == self.cursor:
            (text, _), *rest = line
            return [(text, "here"), *rest]
        return line

    def action_move(self, lines: int) -> None:
        """Move the cursor."""
        if self._rows:
            self._put(max(0, min(self.cursor + lines, len(self._rows) - 1)))

    def action_page(self, pages: int) -> None:
        """Move it by what is seen at once."""
        self.action_move(pages * self.page)

    def action_open(self) -> None:
        """Enter, or a double click."""
        if self._rows:
            self.post_message(self.Opened(self.subject))

    @property
    def current(self) -> Any:
        """Return the row that the cursor is on; None without rows."""
        return self._rows[self.cursor] if self._rows else None

    @property
    def subject(self) -> str:
        """Return the key of what the cursor's row is about; empty without rows."""
        return self.view.subject(self._rows[self.cursor]) if self._rows else ""

    def on_resize(self) -> None:
        """Show the columns that have room now."""
        self.show(self._state)

    def _put(self, number: int) -> None:
        self.cursor = number
        self._cursors[self.view.title] = self.view.key(self._rows[number])
        top = self.scroll_offset.y
        if number < top:
            self.scroll_to(y=number, animate=False)
        elif number >= top + self.page:
            self.scroll_to(y=number - self.page + 1, animate=False)
        self.redraw()
        self.post_message(self.Moved())

    def on_click(self, event: events.Click) -> None:
        """Choose a row, or sort by a title."""
        if event.y == 0:
            column = self._layout.column_at(event.x)
            if column is not None:
                again = self.sort[0] == column.title
                self._sorts[self.view.title] = (column.title, again and not self.sort[1])
                self.show(self._state)
            return
        number = event.y - 1 + self.scroll_offset.y
        if number < len(self._rows):
            self._put(number)
            if event.chain > 1:
                self.action_open()
