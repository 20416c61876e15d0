"""Makes the table of nodes: the host, and what its GPUs do together."""

from collections.abc import Sequence

from dutycycle.contract.units import sum_of_known
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, NodeRow, Value
from dutycycle.live.views.findings import says
from dutycycle.live.views.spans import Line, Style, bar
from dutycycle.live.views.tables.columns import TableColumn, TableView
from dutycycle.live.views.tables.kinds import amount, history, memory, use, words
from dutycycle.words import percent_text, rate_text

_CPU_BUSY = 0.9
_FIGURE = 8


def mean_util(gpus: Sequence[GpuRow]) -> Value:
    """Return the mean use of those whose use is known; None for none."""
    known = [row.now.gpu_util_pct for row in gpus if row.now.gpu_util_pct is not None]
    return sum(known) / len(known) if known else None


def _cpu(row: NodeRow, width: int) -> Line:
    used, cores = row.now.cpu_util_pct, row.now.cpu_count
    share = None if used is None or not cores else used / (100 * cores)
    style: Style = "bad" if share is not None and share >= _CPU_BUSY else "info"
    text = percent_text(used).rjust(_FIGURE)
    return (
        [*bar(share, width - _FIGURE - 1, style), (f" {text}", "")] if width > _FIGURE + 3 else [(text, "")]
    )


def _count(value: Value) -> str:
    return f"{value:.0f}" if value else ""


def columns(state: LiveState) -> Sequence[TableColumn[NodeRow]]:
    """Return what is shown of a node, from left to right."""
    by_node: dict[str, list[GpuRow]] = {}
    for gpu in state.gpus():
        by_node.setdefault(gpu.node, []).append(gpu)

    def gpus(row: NodeRow) -> list[GpuRow]:
        return by_node.get(row.name, [])

    return [
        TableColumn(
            "node", 12, lambda row, _: [(row.name, "bold")], lambda row: row.name, comfort=16, grows=40
        ),
        amount("GPUs", 4, lambda row: len(gpus(row)), _count),
        use("GPU use", lambda row: mean_util(gpus(row)), lambda row: bool(gpus(row))),
        amount(
            "power", 6, lambda row: sum_of_known(gpu.now.power_w for gpu in gpus(row)),
            lambda power_w: "" if power_w is None else f"{power_w:.0f}W", rank=3,
        ),
        TableColumn("CPU", 9, _cpu, lambda row: row.now.cpu_util_pct, comfort=14, grows=18, descending=True),
        amount("cores", 5, lambda row: row.now.cpu_count, _count, rank=5),
        memory(lambda row: row.now.mem_used_bytes, lambda row: row.now.mem_total_bytes),
        amount(
            "disk", 11,
            lambda row: sum_of_known((row.now.disk_read_bytes_per_s, row.now.disk_write_bytes_per_s)),
            rate_text, rank=4,
        ),
        amount(
            "network", 11,
            lambda row: sum_of_known((row.now.net_rx_bytes_per_s, row.now.net_tx_bytes_per_s)),
            rate_text, rank=4,
        ),
        history(
            lambda row, most: row.history.values("cpu_util_pct", most),
            lambda row: 100.0 * (row.now.cpu_count or 1), lambda row: row.util_max,
            rank=2, title="CPU history",
        ),
        words(state, "heads for"),
    ]  # fmt: skip


NODES = TableView(
    title="Nodes",
    rows=LiveState.node_rows,
    columns=columns,
    key=lambda row: row.key,
    subject=lambda row: row.key,
    text=lambda state, row: f"{row.name} {says(state, row)}",
    empty="no node was sampled yet",
)
