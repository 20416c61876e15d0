"""Asks a question on one line, answered by a key."""

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static

_SHOWN_S = 6.0
"""How long an answer stays."""


class Question(Static, can_focus=True):
    """Asks a question, and is hidden until then; ``y`` is yes, every other key that it knows is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes", show=False),
        Binding("n,N,enter,escape,q", "answer(False)", "no", show=False),
    ]

    class Answered(Message):
        """Says that the keys are free again."""

    def __init__(self) -> None:
        super().__init__(markup=False)  # a process may be called [so]
        self._on_yes: Callable[[], str] | None = None

    def ask(self, text: str, on_yes: Callable[[], str]) -> None:
        """Ask, and wait for a key. ``on_yes`` does it, and gives what is said of it."""
        self._on_yes = on_yes
        self.update(text, layout=False)
        self.display = True
        self.focus()

    def say(self, text: str) -> None:
        """Say something for a moment."""
        self.update(text, layout=False)
        self.display = True
        self.set_timer(_SHOWN_S, self._hide)

    def action_answer(self, yes: bool) -> None:
        """Do it, or leave it."""
        on_yes, self._on_yes = self._on_yes, None
        self.post_message(self.Answered())
        if yes and on_yes is not None:
            self.say(on_yes())
        else:
            self.display = False

    def on_blur(self) -> None:
        """Take it as a no that somebody turns to something else."""
        if self._on_yes is not None:
            self._on_yes = None
            self.display = False

    def _hide(self) -> None:
        if self._on_yes is None:
            self.display = False
