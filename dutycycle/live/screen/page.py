"""Shows a page of lines that is scrolled: one subject, the help, the warnings."""

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from dutycycle.live.screen.drawing import Lines
from dutycycle.live.views.spans import Line

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
