"""Columns as kubectl prints them: aligned by spaces, headers in capitals; figures to the right. Pure."""

from collections.abc import Sequence

UNKNOWN = "-"
"""What was not measured. An idle thing has a 0."""
_GAP = "   "


def render(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table, one line a row. A header that ends in ``>`` puts its column to the right."""
    names = [header.removesuffix(">") for header in headers]
    widths = [max(map(len, column)) for column in zip(names, *rows, strict=True)]
    right = [header.endswith(">") for header in headers]
    lines = []
    for row in (names, *rows):
        cells = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip())
    return "\n".join(lines) + "\n"


def plain(value: float | None) -> str:
    """``271.8``, ``62.4``, ``0``."""
    return UNKNOWN if value is None else f"{value:.1f}".removesuffix(".0")


def percent(value: float | None) -> str:
    """``97%``."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def megabytes(value: float | None) -> str:
    """``246MB``, ``11.7GB``."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f}MB" if value < 1000 else f"{value / 1000:.1f}GB"


def age(seconds: float | None) -> str:
    """As kubectl's AGE: ``5s``, ``3m``, ``2h``, ``4d``."""
    if seconds is None:
        return UNKNOWN
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length or (unit != "m" and seconds >= length):
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"
