"""Tells on the last line of a terminal how it goes: of a long command the share that is done, the rate, and
the time that is left."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol, Self, TextIO, TypeVar

from dutycycle.words import rounded_duration

_QUIET_S = 2.0
_EVERY_S = 0.2
_WIDTH = 30
_Item = TypeVar("_Item", covariant=True)


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

    def put(self, text: str | Callable[[], str]) -> None:
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

    def print_line(self, text: str) -> None:
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


class Tracked(Protocol[_Item]):
    """Declares what is gone through. ``size`` is what ``position()`` is at the end, None if that is not
    known."""

    @property
    def size(self) -> float | None: ...

    def position(self) -> float: ...

    def __iter__(self) -> Iterator[_Item]: ...


class Progress(StatusLine):
    """Shows progress on the last line of a terminal, from the third second on; elsewhere nothing.

    ``unit``: what is counted, such as ``samples``. ``whole``: what ``done`` is in the end, such as a size in
    bytes; None if that is not known. ``quiet``: show nothing.
    """

    def __init__(
        self, unit: str, whole: float | None = None, *, quiet: bool = False, out: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        super().__init__(out, quiet_s=_QUIET_S, every_s=_EVERY_S, clock=clock)
        self._unit, self.whole = unit, whole
        self._shows = self.is_terminal and not quiet
        self._began: tuple[float, float, int] | None = None

    def show(self, done: float, count: int, note: str = "") -> None:
        """Show that so much is done, with ``count`` units; ``note`` stands before them."""
        if self._shows:
            self._began = self._began or (self._clock(), done, count)
            self.put(lambda: self._text(done, count, note))

    def track(self, items: Tracked[_Item]) -> Iterator[_Item]:
        """Give out ``items``, and show how far that is."""
        if not self._shows:
            yield from items
            return
        self.whole = items.size
        self._began = self._clock(), items.position(), 0
        for count, item in enumerate(items, 1):
            self.put(lambda count=count: self._text(items.position(), count, ""))  # type: ignore[misc]
            yield item

    def _text(self, done: float, count: int, note: str) -> str:
        began_s, began, before = self._began or (self._clock(), done, count)
        passed_s = max(self._clock() - began_s, 1e-3)
        parts = [f"{note}, " * bool(note) + f"{count} {self._unit}", f"{(count - before) / passed_s:.0f}/s"]
        if self.whole is None:
            return ", ".join(parts)
        share = min(done / self.whole, 1.0) if self.whole else 1.0
        if began < done < self.whole:
            left_s = passed_s * (self.whole - done) / (done - began)
            parts.append(f"{rounded_duration(left_s)} left")
        filled = round(_WIDTH * share)
        return f"[{'#' * filled}{'-' * (_WIDTH - filled)}] {100 * share:3.0f} % {', '.join(parts)}"
