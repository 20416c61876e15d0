"""Makes pieces of a line: bars, sparklines, figures, cut and padded to a width."""

from collections.abc import Sequence
from math import isnan
from typing import Literal

from rich.cells import cell_len, set_cell_size

Style = Literal["", "bold", "dim", "good", "warn", "bad", "info", "here"]
Span = tuple[str, Style]
Line = list[Span]
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = "▁▂▃▄▅▆▇█"
_HOT_C, _WARM_C = 85.0, 75.0
_FULL, _ALMOST = 0.95, 0.85
_BUSY_PCT = 50.0
IDLE_PCT = 5.0
"""Below it a GPU hardly works."""


def util_style(value: float | None) -> Style:
    """Return the style of use: of a GPU work is good, idleness is worth a look."""
    if value is None or value < IDLE_PCT:
        return "dim"
    return "good" if value >= _BUSY_PCT else "warn"


def fill_style(used: float | None, total: float | None) -> Style:
    """Return the style of memory or power: how near it is to its limit."""
    if used is None or not total:
        return ""
    share = used / total
    return "bad" if share >= _FULL else "warn" if share >= _ALMOST else "info"


def heat_style(celsius: float | None) -> Style:
    """Return the style of a chip's temperature."""
    if celsius is None:
        return "dim"
    return "bad" if celsius >= _HOT_C else "warn" if celsius >= _WARM_C else ""


def bar(share: float | None, width: int, style: Style) -> Line:
    """Draw ``share`` of ``width`` cells, in eighths of a cell; nothing but a dotted line where it is not
    known."""
    if share is None:
        return [("·" * width, "dim")]
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    full, rest = divmod(eighths, 8)
    filled = "█" * full + (_EIGHTHS[rest] if rest else "")
    return [(filled, style), ("░" * (width - len(filled)), "dim")]


def sparkline(values: Sequence[float], width: int, top: float) -> Line:
    """Draw the newest values, one a cell, of 0 to ``top``; the newest is at the right, unknown ones are
    gaps."""
    shown = values[-width:]
    text = "".join(height(value, top) for value in shown)
    return [(text.rjust(width), "info")]


def height(value: float, top: float) -> str:
    """Return one cell of a column chart."""
    if isnan(value):
        return " "
    step = int(value / top * len(_HEIGHTS)) if top > 0 else 0
    return _HEIGHTS[max(0, min(step, len(_HEIGHTS) - 1))]


def width_of(line: Line) -> int:
    """Return the width in cells of a terminal."""
    return sum(len(text) if text.isascii() else cell_len(text) for text, _ in line)


def fit(line: Line, width: int, *, right: bool = False) -> Line:
    """Cut with an ellipsis, or pad, to exactly ``width`` cells."""
    missing = width - width_of(line)
    if missing >= 0:
        pad: Span = (" " * missing, "")
        return [pad, *line] if right else [*line, pad]
    parts: Line = []
    room = max(width - 1, 0)
    for text, style in line:
        cut = text if cell_len(text) <= room else set_cell_size(text, room)
        parts.append((cut, style))
        room -= cell_len(cut)
        if room <= 0:
            break
    return [*parts, ("…", "dim")] if width > 0 else []


def text_of(line: Line) -> str:
    """Return the text without its styles."""
    return "".join(text for text, _ in line)
