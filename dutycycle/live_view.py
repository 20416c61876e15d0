"""Draws the live state: a table on a terminal, plain lines elsewhere."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dutycycle.live_state import LiveState, Row

_BAR = 10
_PROCESSES = 4
"""Processes shown of each GPU."""
_UNKNOWN = "·"
_GIB = 1024**3
_MIB = 1024**2


def percent(value: float | None) -> str:
    """``71.2 %``; unknown is a dot, so that it never looks idle."""
    return _UNKNOWN if value is None else f"{value:.1f} %" if value < 99.95 else f"{value:.0f} %"


def amount(value: float | None) -> str:
    """Bytes as MiB or GiB."""
    if value is None:
        return _UNKNOWN
    return f"{value / _GIB:.1f} GiB" if value >= _GIB else f"{value / _MIB:.0f} MiB"


def _memory(row: Row) -> str:
    return amount(row.mem) if row.mem_total is None else f"{amount(row.mem)} of {amount(row.mem_total)}"


def _bar(row: Row) -> Text:
    if row.util is None or row.kind != "gpu":
        return Text("")
    full = round(row.util / 100 * _BAR)
    return Text("█" * full, "green") + Text("░" * (_BAR - full), "bright_black")


def _table(title: str, what: str, rows: Sequence[Row], room: int) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="bold", expand=True, pad_edge=False, box=None
    )
    table.add_column("", ratio=3, no_wrap=True, overflow="ellipsis")
    table.add_column("", width=_BAR)
    for header in (what, "max", "memory", "max"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("cycle", justify="right", no_wrap=True)
    table.add_column("trend", justify="right", no_wrap=True)
    for row in rows[:room]:
        table.add_row(Text(row.name), _bar(row), *_figures(row))  # as it is: a name may hold [brackets]
        for name, util, memory in row.processes[:_PROCESSES]:
            table.add_row(Text(f"  {name}"), "", percent(util), "", amount(memory), style="dim")
    if len(rows) > room:
        table.add_row(f"… and {len(rows) - room} more")
    return table


def _figures(row: Row) -> tuple[str, ...]:
    util, most = percent(row.util), percent(row.util_max)
    if row.kind == "pod" and row.gpu_util_max is not None:
        util, most = f"gpu {percent(row.gpu_util)} cpu {util}", f"{percent(row.gpu_util_max)}"
    return util, most, _memory(row), amount(row.mem_max), row.cycle, row.trend


def render(state: LiveState, header: str, degraded: Sequence[str], height: int) -> RenderableType:
    """The whole view for a terminal of ``height`` lines."""
    gpus, nodes, pods = (state.of_kind(kind) for kind in ("gpu", "node", "pod"))
    parts: list[RenderableType] = [Text(header, "dim"), _table("Nodes", "CPU", nodes, 8)]
    if gpus:
        parts.append(_table("GPUs", "GPU", gpus, 16))
    processes = sum(min(len(row.processes), _PROCESSES) for row in gpus[:16])
    used = 9 + min(len(nodes), 8) + (3 + min(len(gpus), 16) + processes if gpus else 0) + len(degraded)
    parts.append(_table("Pods, containers, units", "use", pods, max(3, height - used)))
    if not state.ticks:
        parts.append(Text("waiting for the first sample …", "yellow"))
    parts += [Text(f"! {line}", "yellow", no_wrap=True, overflow="ellipsis") for line in degraded]
    return Group(*parts)


def plain_lines(state: LiveState, most_pods: int = 10) -> Iterator[str]:
    """The view as lines for a log: one a node, GPU and pod."""
    for kind in ("node", "gpu", "pod"):
        rows = state.of_kind(kind)
        for row in rows[:most_pods] if kind == "pod" else rows:
            util, most, memory, mem_max, cycle, trend = _figures(row)
            extra = "".join(
                f" {name} {value}" for name, value in (("cycle", cycle), ("trend", trend)) if value
            )
            yield f"{kind} {row.name}: {util} (max {most}) memory {memory} (max {mem_max}){extra}"
            for name, busy, held in row.processes:
                yield f"  process {name}: {percent(busy)} memory {amount(held)}"
