"""Makes the table of GPUs."""

from collections.abc import Sequence

from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow
from dutycycle.live.views.findings import says
from dutycycle.live.views.spans import Line, Style, heat_style
from dutycycle.live.views.tables.columns import TableColumn, TableView
from dutycycle.live.views.tables.kinds import amount, history, memory, use, words
from dutycycle.words import UNKNOWN

_NAMED = 2
_NAME = 24
_NEAR_LIMIT = 0.97


def owners(state: LiveState, row: GpuRow) -> str:
    """Return the pods on it, by name; without one its processes."""
    pods = (state.rows.get(f"pod/{uid}") for uid in sorted(row.pods))
    names = [pod.title for pod in pods if pod is not None]
    names = names or [process.name or f"pid {process.pid}" for process in row.processes]
    more = f" +{len(names) - _NAMED}" if len(names) > _NAMED else ""
    return ", ".join(dict.fromkeys(names[:_NAMED])) + more


def _power(row: GpuRow, width: int) -> Line:
    now, limit = row.now.power_w, row.now.power_limit_w
    if now is None:
        return [(UNKNOWN, "dim")]
    near: Style = "warn" if limit and now >= _NEAR_LIMIT * limit else ""
    return [(f"{now:.0f}/{limit:.0f}W" if limit and width >= _BOTH else f"{now:.0f}W", near)]


_BOTH = 8
"""Cells for the power and its limit."""


def _heat(row: GpuRow, _: int) -> Line:
    now = row.now.temp_c
    return [(UNKNOWN if now is None else f"{now:.0f}°C", heat_style(now))]


def _percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} %"


def columns(state: LiveState) -> Sequence[TableColumn[GpuRow]]:
    """Return what is shown of a GPU, from left to right."""
    rows = state.gpus()
    several = len({row.node for row in rows}) > 1

    def name(row: GpuRow) -> str:
        return row.name if several else str(row.now.index)

    widest = min(max((len(name(row)) for row in rows), default=3), _NAME)
    model = TableColumn[GpuRow]("model", 12, lambda row, _: [(_model(row), "dim")], _model, rank=6, grows=20)
    of_models = [model] if len({row.now.model for row in rows}) > 1 else []
    activity: list[TableColumn[GpuRow]] = []
    if any(row.now.sm_active_pct is not None for row in rows):  # from Hopper on
        activity = [
            amount("SM", 5, lambda row: row.now.sm_active_pct, _percent, rank=1),
            amount("tensor", 6, lambda row: row.now.tensor_active_pct, _percent, rank=2),
        ]
    return [
        TableColumn("GPU", max(widest, 4), lambda row, _: [(name(row), "bold")], lambda row: row.order),
        *of_models,
        use("use", lambda row: row.now.gpu_util_pct),
        *activity,
        memory(lambda row: row.now.mem_used_bytes, lambda row: row.now.mem_total_bytes),
        TableColumn("heat", 5, _heat, lambda row: row.now.temp_c, rank=2, right=True, descending=True),
        TableColumn(
            "power", 5, _power, lambda row: row.now.power_w, rank=2, comfort=8, right=True, descending=True
        ),
        amount(
            "MHz", 5, lambda row: row.now.sm_clock_mhz,
            lambda clock_mhz: UNKNOWN if clock_mhz is None else f"{clock_mhz:.0f}", rank=5,
        ),
        history(
            lambda row, most: row.history.values("gpu_util_pct", most), lambda _: 100,
            lambda row: row.util_max,
        ),
        TableColumn(
            "pod, process", 16, lambda row, _: [(owners(state, row), "")], lambda row: owners(state, row),
            rank=3, grows=36,
        ),
        words(state),
    ]  # fmt: skip


def _model(row: GpuRow) -> str:
    return (row.now.model or "").removeprefix("NVIDIA ")


GPUS = TableView(
    title="GPUs",
    rows=LiveState.gpus,
    columns=columns,
    key=lambda row: row.key,
    subject=lambda row: row.key,
    text=lambda state, row: f"{row.name} {row.now.model} {owners(state, row)} {says(state, row)}",
    empty="no GPU was sampled yet: a driver that is missing is said below",
)
