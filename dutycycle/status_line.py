"""Writes the last line of a terminal, over again and again: how far something is, or how it goes."""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Self, TextIO


class StatusLine:
    """Writes to ``out``, by default stderr. What is no terminal gets whole lines alone.

    ``quiet_s``: what takes no longer is not shown at all; ``every_s``: between two texts.
    """

    def __init__(
        self, out: TextIO | None = None, *, quiet_s: float = 0.0, every_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._out = out or sys.stderr
        self._clock = clock
        self._every_s = every_s
        self._due_s = clock() + quiet_s
        self._shown = False
        self.is_terminal = self._out.isatty()

    def show(self, text: str | Callable[[], str]) -> None:
        """Put ``text`` in place of what was shown, as far as there is room. A function is called if due."""
        if not self.is_terminal or (now_s := self._clock()) < self._due_s:
            return
        self._due_s = now_s + self._every_s
        self._shown = True
        shown = text if isinstance(text, str) else text()
        room = None  # how many letters do not wrap, as far as that is known
        with suppress(OSError):
            if columns := os.get_terminal_size(self._out.fileno()).columns:
                room = columns - 1
        self._write(f"\r{shown[:room]}\033[K")

    def line(self, text: str) -> None:
        """Write a line that stays."""
        self.clear()
        self._write(f"{text}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def clear(self) -> None:
        """Make place: somebody else writes a line."""
        if self._shown:
            self._shown = False
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        self._out.write(text)
        self._out.flush()
