"""How far a long command is: a bar on a terminal, a line now and then elsewhere."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TextIO

from dutycycle.status_line import StatusLine

_WIDTH = 30
_LINES_EVERY_S = 10.0


class Progress:
    """Shows how much of ``[start_ms, end_ms]`` is done, on ``out``. ``name`` says where that is."""

    def __init__(
        self, start_ms: int, end_ms: int, out: TextIO, clock: Callable[[], float] = time.monotonic,
        name: Callable[[int, int], str] | None = None,
    ) -> None:  # fmt: skip
        self._name = name or _up_to
        self._start_ms, self._end_ms = start_ms, end_ms
        self._status = StatusLine(out)
        self._clock = clock
        self._began: tuple[float, int] | None = None
        self._shown_s = float("-inf")

    def show(self, reached_ms: int, records: int) -> None:
        """All up to ``reached_ms`` is done, with so many records."""
        now_s = self._clock()
        self._began = self._began or (now_s, reached_ms)
        is_end = reached_ms >= self._end_ms
        if not self._status.is_terminal and now_s - self._shown_s < _LINES_EVERY_S and not is_end:
            return
        self._shown_s = now_s
        share = (reached_ms - self._start_ms) / max(1, self._end_ms - self._start_ms)
        text = f"{100 * share:3.0f} % {self._name(reached_ms, records)}{self._left(now_s, reached_ms)}"
        if self._status.is_terminal:
            done = round(_WIDTH * share)
            text = f"[{'#' * done}{'-' * (_WIDTH - done)}] {text}"
        show = self._status.show if self._status.is_terminal and not is_end else self.say
        show(text.strip())

    def say(self, text: str) -> None:
        """A line of its own."""
        self._status.line(text)

    def _left(self, now_s: float, reached_ms: int) -> str:
        began_s, began_ms = self._began or (now_s, reached_ms)
        if reached_ms <= began_ms or reached_ms >= self._end_ms:
            return ""
        left_s = (now_s - began_s) * (self._end_ms - reached_ms) / (reached_ms - began_ms)
        return f", {left_s / 60:.0f} min left" if left_s >= 60 else f", {left_s:.0f} s left"


def _up_to(reached_ms: int, records: int) -> str:
    moment = datetime.fromtimestamp(reached_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
    return f"up to {moment} UTC, {records} records"
