"""Shows the view without a terminal: plain lines for a log, one a node, GPU and pod."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence

from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, NodeRow, PodRow
from dutycycle.live.views.figures import slice_text
from dutycycle.live.views.findings import (
    activity,
    cycle_words,
    forecast_words,
    full_words,
    silence_words,
    slowed_words,
)
from dutycycle.live.views.warnings import health_warnings
from dutycycle.words import bytes_text, of_bytes, percent_text

_EVERY_S = 5.0
_PODS = 10


def plain_lines(state: LiveState, most_pods: int | None = _PODS) -> Iterator[str]:
    """Yield what is known now."""
    rows: list[GpuRow | NodeRow | PodRow] = [*state.node_rows(), *state.gpus(), *state.pods()[:most_pods]]
    for row in rows:
        kind = row.key.partition("/")[0]
        # What of a GPU really works, where it says so
        parts = (
            (("SM", row.now.sm_active_pct), ("tensor", row.now.tensor_active_pct))
            if isinstance(row, GpuRow)
            else ()
        )
        inside = " ".join(f"{name} {percent_text(value)}" for name, value in parts if value is not None)
        if isinstance(row, PodRow):
            util, most, memory = percent_text(row.cpu), percent_text(row.cpu_max), bytes_text(row.mem)
            if row.gpu_util_max is not None:
                util = f"gpu {percent_text(row.gpu_util)} cpu {util}"
                most = percent_text(row.gpu_util_max)
        else:
            util = percent_text(row.now.gpu_util_pct if isinstance(row, GpuRow) else row.now.cpu_util_pct)
            most = percent_text(row.util_max)
            memory = of_bytes(row.now.mem_used_bytes, row.now.mem_total_bytes)
        trend = filter(None, (full_words(row), forecast_words(row)))
        known = (
            (silence_words(state, row), ""),
            (inside, ""),
            (activity(state, row), "does"),
            (slowed_words(state, row), ""),
            (cycle_words(row), ""),
            (", ".join(trend), "trend"),
        )
        extra = "".join(f" {name} {value}".replace("  ", " ") for value, name in known if value)
        title = (
            f"{row.node} gpu {row.now.index} {row.now.model or ''}".rstrip()
            if isinstance(row, GpuRow)
            else row.title
        )
        yield f"{kind} {title}: {util} (max {most}) memory {memory} (max {bytes_text(row.mem_max)}){extra}"
        for piece in (row.now.mig or ()) if isinstance(row, GpuRow) else ():
            held = of_bytes(piece.mem_used_bytes, piece.mem_total_bytes)
            name = f"{piece.uuid} {piece.profile or ''}".rstrip()
            yield f"  slice {name}: {slice_text(piece)} memory {held}"
        for process in row.processes if isinstance(row, GpuRow) else ():
            held = bytes_text(process.mem_used_bytes)
            name, util = f"{process.name or 'process'} {process.pid}", percent_text(process.gpu_util_pct)
            yield f"  process {name}: {util} memory {held}"


class LinePrinter:
    """Prints: new warnings at once, figures every few seconds."""

    def __init__(self, state: LiveState, degraded: Callable[[], Sequence[str]]) -> None:
        self._state = state
        self._degraded = degraded
        self._printed: set[str] = set()
        self._due = 0.0

    def show(self) -> None:
        """Print what is new."""
        for line in (*health_warnings(self._state), *self._degraded()):
            if line not in self._printed:
                self._printed.add(line)
                say(f"! {line}")
        now = time.monotonic()
        if now >= self._due and self._state.ticks:
            self._due = now + _EVERY_S
            for line in plain_lines(self._state):
                say(line)


def say(line: str) -> None:
    """Print a line on stdout, at once."""
    print(line, file=sys.stdout, flush=True)  # noqa: T201
