"""Makes pages of lines that are no table: help, and all warnings."""

import textwrap
from collections.abc import Sequence

from dutycycle.live.views.spans import Line

_KEYS = (
    ("1 … 5, Tab", "another view: GPUs, pods, jobs, nodes, processes"),
    ("↑ ↓ PgUp PgDn Home End", "move; also j, k, G and the wheel"),
    ("Enter", "in depth: history, forecast, cycle, processes, advice"),
    ("← →", "there: the subject before, the next one"),
    ("Escape", "back; ends a filter"),
    ("/", "filter: rows with all the words that are typed"),
    ("s, S", "sort by the next column, by the one before"),
    ("r", "the other way round"),
    ("Space", "freeze, and go on"),
    ("t, K", "processes of this machine: end, kill; asks first (off by DUTYCYCLE_SIGNALS)"),
    ("w", "all warnings"),
    ("Ctrl-L", "draw all of it again"),
    ("q, Ctrl-C", "quit"),
    ("mouse", "click a tab, a row or a title; a double click opens"),
)
_MEANINGS: tuple[Line, ...] = (
    [("█ use  ", "good"), ("a GPU works; ", ""), ("yellow", "warn"), (" it hardly does; ", ""),
     ("grey", "dim"), (" it does not, or that is not known", "")],
    [("█ memory, heat, power  ", "info"), ("yellow", "warn"), (" from 85 % or 75 °C on, ", ""),
     ("red", "bad"), (" from 95 % or 85 °C on", "")],
    [("▁▄█ history  ", "info"), ("one cell a tick, the newest at the right", "")],
    [("cycle 10 s  ", ""), ("a pattern of load that repeats every ten seconds", "dim")],
    [("58 % in 5m  ", ""), ("the forecast for five minutes from now", "dim")],
    [("3 of 4  ", "warn"), ("GPUs on which a pod ever worked, of those that it has", "dim")],
    [("·  ", "dim"), ("not known, which is not 0", "dim")],
)  # fmt: skip


def help_page() -> list[Line]:
    """Return keys, and what is meant by what."""
    keys: list[Line] = [[(f"  {key:<24}", "bold"), (words, "")] for key, words in _KEYS]
    meanings: list[Line] = [[("  ", ""), *line] for line in _MEANINGS]
    return [[("Keys", "bold")], *keys, [], [("What it shows", "bold")], *meanings]


def warnings_page(paragraphs: Sequence[str], width: int) -> list[Line]:
    """Return all of them, the most urgent first."""
    if not paragraphs:
        return [[("no warnings", "dim")]]
    lines: list[Line] = [[("Warnings", "bold")]]
    for paragraph in paragraphs:
        first, *rest = textwrap.wrap(paragraph, max(width - 3, 20))
        lines.append([("! ", "warn"), (first, "")])
        lines += [[("  ", ""), (line, "")] for line in rest]
    return lines
