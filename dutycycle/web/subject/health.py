"""Tells whether a GPU, or those of a node, are in order: the verdict, what it follows from, and how old it
is."""

from dataclasses import dataclass

from dutycycle.contract.health.changes import HEARD_OF_MS
from dutycycle.contract.records.health import GpuHealth
from dutycycle.live.model.state import LiveState
from dutycycle.live.model.subjects import GpuRow, NodeRow, Row

_COUNTERS = {
    "ecc_corrected": "corrected errors of memory", "ecc_uncorrected": "uncorrected errors of memory",
    "rows_remapped_corrected": "rows replaced after corrected errors",
    "rows_remapped_uncorrected": "rows replaced after uncorrected errors",
    "pages_retired": "retired pages of memory", "pcie_replays": "replays on PCIe",
    "nvlinks_active": "NVLinks that are active", "nvlink_errors": "errors of NVLinks",
}  # fmt: skip
"""What a page shows of ``HealthCounters``, and its name there."""


@dataclass(frozen=True, slots=True)
class ShownHealth:
    """Shows one GPU. ``is_old``: it was not judged for so long that this may no longer be so; ``counters``:
    name and value of those that it tells."""

    name: str
    verdict: GpuHealth
    age_s: float
    is_old: bool
    counters: list[tuple[str, int]]


def health_of(state: LiveState, row: Row) -> list[ShownHealth] | None:
    """Give the verdicts of a GPU or node, the worst first; None for what has no health."""
    if not isinstance(row, GpuRow | NodeRow):
        return None
    node = row.node if isinstance(row, GpuRow) else row.name
    health = state.health.get(node)
    shown = []
    for verdict in () if health is None else health.gpus:
        if isinstance(row, GpuRow) and verdict.gpu != row.now.uuid:
            continue
        age_ms = max(0, state.now_ms - verdict.seen_ms)
        counters = [
            (words, value)
            for name, words in _COUNTERS.items()
            if (value := getattr(verdict.counters, name, None)) is not None
        ]
        name = f"{node}:{verdict.index}"
        shown.append(ShownHealth(name, verdict, age_ms / 1000, age_ms > HEARD_OF_MS, counters))
    return sorted(shown, key=lambda of_gpu: (of_gpu.verdict.level == "healthy", of_gpu.verdict.index))
