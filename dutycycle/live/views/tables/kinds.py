"""Makes columns that several tables have: an amount, a share with a bar, a history, and what is said in
words."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from dutycycle.contract.units import GIB
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import Row, Value
from dutycycle.live.views.findings import activity, full_in_s, health_words, is_held_down, says
from dutycycle.live.views.spans import Line, Style, bar, fill_style, fit, sparkline, util_style
from dutycycle.live.views.tables.columns import TableColumn
from dutycycle.words import UNKNOWN

R = TypeVar("R")
S = TypeVar("S", bound=Row)
_BAR_FROM = 9


def figure(text: str) -> Line:
    """Return a figure, dim where it is not known."""
    return [(text, "dim" if text == UNKNOWN else "")]


def amount(
    title: str, width: int, value: Callable[[R], Value], text: Callable[[Value], str], rank: int = 0
) -> TableColumn[R]:
    """Return a figure at the right; the largest comes first."""
    return TableColumn(
        title, width, lambda row, _: figure(text(value(row))), value, rank=rank, right=True, descending=True
    )


def use(
    title: str, value: Callable[[R], Value], is_there: Callable[[R], bool] = lambda _: True
) -> TableColumn[R]:
    """Return percent with a bar; the percent alone where there is no place for both, nothing for what has
    none."""

    def cell(row: R, width: int) -> Line:
        if not is_there(row):
            return []
        pct = value(row)
        text = UNKNOWN if pct is None else f"{pct:.0f} %"
        style = util_style(pct)
        if width < _BAR_FROM:
            return [(text, style)]
        return [*bar(None if pct is None else pct / 100, width - 6, style), (text.rjust(6), style)]

    return TableColumn(title, 12, cell, value, comfort=14, grows=18, descending=True)


def memory(used_of: Callable[[R], Value], total_of: Callable[[R], Value]) -> TableColumn[R]:
    """Return bytes as GiB, ``89/141G``, with a bar where there is place for one."""

    def cell(row: R, width: int) -> Line:
        used, total, room = used_of(row), total_of(row), width - 10
        if used is None:
            text = UNKNOWN
        else:
            text = f"{used / GIB:.0f}/{total / GIB:.0f}G" if total else f"{used / GIB:.1f}G"
        style = fill_style(used, total)
        if room < 3 or not total:
            return fit([(text, style)], width, right=True)
        return [*bar(None if used is None else used / total, room, style), (text.rjust(10), style)]

    return TableColumn("memory", 15, cell, used_of, comfort=17, grows=20, descending=True)


def history(
    values: Callable[[R, int], Sequence[float]],
    top: Callable[[R], float],
    order: Callable[[R], Value],
    rank: int = 1,
    title: str = "history",
) -> TableColumn[R]:
    """Return the newest values as a sparkline, one a tick."""
    return TableColumn(
        title, 10, lambda row, width: sparkline(values(row, width), width, top(row)), order, rank=rank,
        comfort=20, grows=60, descending=True,
    )  # fmt: skip


def words(state: LiveState, title: str = "what it does") -> TableColumn[S]:
    """Return what the streams say, in a colour that says how much it matters."""

    def cell(row: S, _: int) -> Line:
        is_urgent = full_in_s(row) is not None or is_held_down(row) or bool(health_words(state, row))
        urgent: Style = "warn" if is_urgent else ""
        return [(says(state, row), "bad" if row.is_silent else urgent)]

    return TableColumn(title, 22, cell, lambda row: activity(state, row) or None, comfort=40, grows=80)
