"""Draws the live state: a table on a terminal, plain lines elsewhere."""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dutycycle.live.state import LiveState, SubjectRow

_BAR = 10
_PROCESSES = 4
"""Processes shown of each GPU."""
_UNKNOWN = "·"
_NARROW = 100
"""With fewer columns the maxima and the bars are left out, so that names can be read."""
_GIB = 1024**3
_MIB = 1024**2


def percent_text(value: float | None) -> str:
    """``71.2 %``; unknown is a dot, so that it never looks idle."""
    return _UNKNOWN if value is None else f"{value:.1f} %" if value < 99.95 else f"{value:.0f} %"


def bytes_text(value: float | None) -> str:
    """Bytes as MiB or GiB."""
    if value is None:
        return _UNKNOWN
    return f"{value / _GIB:.1f} GiB" if value >= _GIB else f"{value / _MIB:.0f} MiB"


def _memory(row: SubjectRow) -> str:
    if row.mem_total is None:
        return bytes_text(row.mem)
    used, total = bytes_text(row.mem), bytes_text(row.mem_total)
    return f"{used.removesuffix(' GiB')} of {total}" if total.endswith(" GiB") else f"{used} of {total}"


def _bar(row: SubjectRow) -> Text:
    if row.util is None or row.kind != "gpu":
        return Text("")
    full = round(row.util / 100 * _BAR)
    return Text("█" * full, "green") + Text("░" * (_BAR - full), "bright_black")


def _table(
    title: str, what: str, rows: Sequence[SubjectRow], room: int, state: LiveState, width: int
) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", expand=True, pad_edge=False, box=None
    )
    wide = width >= _NARROW
    table.add_column("", ratio=3, no_wrap=True, overflow="ellipsis")
    if wide and rows and rows[0].kind == "gpu":
        table.add_column("", width=_BAR)
    for header in (what, "max", "memory", "max") if wide else (what, "memory"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("does, cycle, trend", no_wrap=True, overflow="ellipsis")
    for row in rows[:room]:
        bar = [_bar(row)] if wide and row.kind == "gpu" else []
        util, most, memory, mem_max = _figures(row)
        figures = (util, most, memory, mem_max) if wide else (util, memory)
        # Names as they are: they may hold [brackets].
        table.add_row(Text(row.title), *bar, *figures, Text("\n".join(_notes(state, row))))
        for name, busy, held in row.processes[:_PROCESSES]:
            of_process = (
                (percent_text(busy), "", bytes_text(held), "")
                if wide
                else (percent_text(busy), bytes_text(held))
            )
            table.add_row(Text(f"  {name}"), *("" for _ in bar), *of_process, "", style="dim")
    if len(rows) > room:
        table.add_row(f"… and {len(rows) - room} more")
    return table


def _figures(row: SubjectRow) -> tuple[str, str, str, str]:
    util, most = percent_text(row.util), percent_text(row.util_max)
    if row.kind == "pod" and row.gpu_util_max is not None:
        util, most = f"gpu {percent_text(row.gpu_util)} cpu {util}", f"{percent_text(row.gpu_util_max)}"
    return util, most, _memory(row), bytes_text(row.mem_max)


def _notes(state: LiveState, row: SubjectRow) -> list[str]:
    """What it does, and below that its cycle and trend; what is not known takes no line."""
    goes = ", ".join(filter(None, (row.cycle, state.trend(row))))
    return [line for line in (state.does(row), goes) if line]


def _lines(state: LiveState, rows: Sequence[SubjectRow]) -> list[int]:
    """How many lines each row takes, without those of processes."""
    return [max(len(_notes(state, row)), 1) for row in rows]


def draw(
    state: LiveState, header: str, degraded: Sequence[str], height: int, width: int = _NARROW
) -> RenderableType:
    """The whole view for a terminal of ``height`` lines of ``width`` columns."""
    gpus, nodes, pods = (state.of_kind(kind) for kind in ("gpu", "node", "pod"))
    parts: list[RenderableType] = [Text(header, "dim"), _table("Nodes", "CPU", nodes, 8, state, width)]
    if gpus:
        parts.append(_table("GPUs", "GPU", gpus, 16, state, width))
    processes = sum(min(len(row.processes), _PROCESSES) for row in gpus[:16])
    used = 9 + sum(_lines(state, nodes[:8])) + len(degraded)
    used += 3 + sum(_lines(state, gpus[:16])) + processes if gpus else 0
    left = max(3, height - used)
    room = sum(end <= left for end in accumulate(_lines(state, pods)))
    parts.append(_table("Pods, containers, units", "use", pods, room, state, width))
    if not state.ticks:
        parts.append(Text("waiting for the first sample …", "yellow"))
    parts += [Text(f"! {line}", "yellow", no_wrap=True, overflow="ellipsis") for line in degraded]
    return Group(*parts)


def plain_lines(state: LiveState, most_pods: int = 10) -> Iterator[str]:
    """The view as lines for a log: one a node, GPU and pod."""
    for kind in ("node", "gpu", "pod"):
        rows = state.of_kind(kind)
        for row in rows[:most_pods] if kind == "pod" else rows:
            util, most, memory, mem_max = _figures(row)
            known = {"does": state.does(row), "cycle": row.cycle, "trend": state.trend(row)}
            extra = "".join(f" {name} {value}" for name, value in known.items() if value)
            yield f"{kind} {row.title}: {util} (max {most}) memory {memory} (max {mem_max}){extra}"
            for name, busy, held in row.processes:
                yield f"  process {name}: {percent_text(busy)} memory {bytes_text(held)}"
