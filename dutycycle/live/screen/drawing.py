"""Draws lines of spans on a terminal, by Textual; only what changed is drawn again."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dutycycle.live.views.spans import Line, fit

_STYLES = {
    "": Style(),
    "bold": Style(bold=True),
    "dim": Style(color="bright_black"),
    "good": Style(color="green"),
    "warn": Style(color="yellow"),
    "bad": Style(color="red", bold=True),
    "info": Style(color="cyan"),
    "here": Style(reverse=True, bold=True),
}
"""The sixteen colours of the terminal itself: they fit its background, whichever that is."""


def text_of_line(line: Line) -> Text:
    """Return the text for a widget of one line."""
    return Text.assemble(*((text, _STYLES[style]) for text, style in line), no_wrap=True, overflow="ellipsis")


class Lines(ScrollView, can_focus=True):
    """Scrolls over ``count()`` lines below ``head()`` lines that stay; asks for those alone that are seen."""

    DEFAULT_CSS = """
    Lines {
        overflow-x: hidden; scrollbar-size-vertical: 1;
        scrollbar-color: ansi_bright_black; scrollbar-background: ansi_default;
        scrollbar-color-hover: ansi_white; scrollbar-background-hover: ansi_default;
        scrollbar-color-active: ansi_white; scrollbar-background-active: ansi_default;
    }
    """

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - as Textual calls it
        super().__init__(id=id)
        self._drawn: list[Line] = []

    def head(self) -> list[Line]:
        """Return lines above those that scroll."""
        return []

    def count(self) -> int:
        """Tell how many lines scroll."""
        return 0

    def line(self, number: int) -> Line:
        """Return a line that scrolls, of ``count()``."""
        return []

    @property
    def room(self) -> int:
        """Return how many cells a line has."""
        return self.scrollable_content_region.width

    @property
    def page(self) -> int:
        """Return how many lines are seen at once."""
        return max(self.scrollable_content_region.height - len(self.head()), 1)

    def redraw(self) -> None:
        """Look at all that is seen, and draw what changed."""
        room, lines = self.room, self._seen()
        size = Size(room, self.count() + len(self.head()))
        if size != self.virtual_size:
            self.virtual_size = size
        before, self._drawn = self._drawn, lines
        changed = [y for y, line in enumerate(lines) if y >= len(before) or before[y] != line]
        if changed:
            self.refresh(*(Region(0, y, room, 1) for y in changed))

    def _seen(self) -> list[Line]:
        head, top = self.head(), self.scroll_offset.y
        rows = range(top, min(top + self.scrollable_content_region.height - len(head), self.count()))
        lines = [*head, *(self.line(number) for number in rows)]
        return lines + [[]] * (self.scrollable_content_region.height - len(lines))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the other lines that are seen now."""
        super().watch_scroll_y(old_value, new_value)
        self._drawn = self._seen()

    def on_resize(self) -> None:
        """Draw all lines anew, as another width makes them others."""
        self.redraw()

    def render_line(self, y: int) -> Strip:
        """Return what Textual asks for."""
        line = self._drawn[y] if y < len(self._drawn) else []
        return Strip([Segment(text, _STYLES[style]) for text, style in fit(line, self.room)], self.room)


Content = Callable[[int], Sequence[Line]]
"""The lines of a page, for a width."""


class Page(Lines):
    """Shows the lines that it is given; the arrows to the sides ask for its neighbours."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "previous", show=False),
        Binding("right", "turn(1)", "next", show=False),
    ]

    class Turned(Message):
        """Says that somebody wants to see the subject before, or the next one."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, id: str | None = None) -> None:  # noqa: A002 - as Textual calls it
        super().__init__(id=id)
        self._content: Content = lambda _: []
        self._lines: Sequence[Line] = ()

    def show(self, content: Content) -> None:
        """Show something else, or the same as it is now."""
        self._content = content
        self._lines = content(self.room)
        self.redraw()

    def on_resize(self) -> None:
        """Show other lines for another width."""
        self.show(self._content)

    def count(self) -> int:
        """Return all of them."""
        return len(self._lines)

    def line(self, number: int) -> Line:
        """Return one of them."""
        return self._lines[number]

    def action_turn(self, step: int) -> None:
        """Ask for the neighbour at one side."""
        self.post_message(self.Turned(step))
