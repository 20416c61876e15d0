"""Makes the table of pods, or outside Kubernetes of containers and units."""

from collections.abc import Sequence

from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import PodRow
from dutycycle.live.views.findings import says
from dutycycle.live.views.spans import Line
from dutycycle.live.views.tables.columns import TableColumn, TableView
from dutycycle.live.views.tables.kinds import amount, history, use, words
from dutycycle.words import bytes_text, percent_text


def gpus_held(row: PodRow) -> tuple[int | None, int]:
    """Return on how many GPUs it ever worked, None where that is not known of all, and how many it has or
    asks for."""
    asked = row.identity.gpu_request if row.identity is not None else None
    held = max(len(row.gpus), round(asked or 0))
    used = [worked for worked in row.gpus.values() if worked is not None]
    is_known = len(used) == len(row.gpus) and (row.gpus or not held)
    return sum(used) if is_known else None, held


def of_gpus(used: int | None, held: int) -> Line:
    """Return ``1 of 4``; one figure where all are used or that is not known, nothing without any."""
    if not held:
        return []
    return [(str(held), "")] if used in (None, held) else [(f"{used} of {held}", "warn")]


def values(row: PodRow, most: int) -> Sequence[float]:
    """Return the newest of its main metric."""
    if row.main == "gpu_util_pct":
        return row.gpu_history.values("gpu_util_pct", most)
    return row.history.values("cpu_util_pct", most)


def top(row: PodRow) -> float:
    """Return the height of a chart of them."""
    return 100 if row.main == "gpu_util_pct" else max(row.cpu_max or 0, 100)


def columns(state: LiveState) -> Sequence[TableColumn[PodRow]]:
    """Return what is shown of a pod, from left to right."""
    node = TableColumn[PodRow](
        "node", 10, lambda row, _: [(row.node, "dim")], lambda row: row.node, rank=5, grows=20
    )
    several = len({row.node for row in state.pods()}) > 1
    return [
        TableColumn(
            "pod", 20, lambda row, _: [(row.title, "bold")], lambda row: row.title, comfort=24, grows=44
        ),
        *([node] if several else []),
        TableColumn(
            "GPUs", 6, lambda row, _: of_gpus(*gpus_held(row)), lambda row: gpus_held(row)[1], rank=1,
            right=True, descending=True,
        ),
        use("GPU use", lambda row: row.gpu_util, lambda row: bool(row.gpus)),
        amount(
            "GPU mem", 9, lambda row: row.gpu_mem,
            lambda size: "" if size is None else bytes_text(size), rank=2,
        ),
        amount("CPU", 7, lambda row: row.cpu, percent_text, rank=1),
        amount("CPU max", 7, lambda row: row.cpu_max, percent_text, rank=7),
        amount("memory", 9, lambda row: row.mem, bytes_text, rank=2),
        history(values, top, lambda row: row.gpu_util_max, rank=4),
        words(state),
    ]  # fmt: skip


PODS = TableView(
    title="Pods",
    rows=LiveState.pods,
    columns=columns,
    key=lambda row: row.key,
    subject=lambda row: row.key,
    text=lambda state, row: f"{row.title} {row.node} {row.uid} {says(state, row)}",
    empty="no pod, container or unit was sampled yet",
)
