"""What is found about GPUs, gathered from windows, cycles and trends until it is sent to their nodes. Pure.

Derived records are keyed by GPU, so that those of one node reach different workers. What an annotation needs
of them is small, and is sent on, keyed by node: one worker then puts a node's annotations together.
"""

from msgspec.structs import replace

from contract.log import TopicPartition
from contract.records.derived import Cycle, Trend, WindowAggregate
from contract.records.parts import NodePart
from sinks.offsets import PendingOffsets

TOPICS = ("window-aggregates", "trends", "cycles")
"""Without prefix."""
METRIC = "gpu_util_pct"
"""Cycle and trend are those of the GPU's utilization."""
MAXIMA = frozenset({"gpu_util_pct", "mem_copy_util_pct"})
"""The metrics whose maxima an annotation has."""


class NodeNews:
    """One part for each GPU that something was found about, and the records that it stands for."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str], NodePart] = {}
        self._held = PendingOffsets()

    def take(self, record: WindowAggregate | Cycle | Trend, place: TopicPartition, offset: int) -> None:
        """Note what a record says; those of other metrics and subjects are passed over."""
        node, gpu = record.subject.node, record.subject.gpu
        if record.subject.kind != "gpu" or node is None or gpu is None:
            return
        at_ms = record.end_ms if isinstance(record, WindowAggregate) else record.ts_ms
        before = self._parts.get((node, gpu)) or NodePart(node=node, gpu=gpu, ts_ms=at_ms)
        after = _with(before, record)
        if after is not None:
            self._parts[node, gpu] = replace(after, ts_ms=max(before.ts_ms, at_ms))
            self._held.add(place, offset)

    def cut(self) -> tuple[list[NodePart], PendingOffsets]:
        """All there is, in a fixed order; from now on the caller answers for these records."""
        parts = [self._parts[who] for who in sorted(self._parts)]
        held, self._held, self._parts = self._held, PendingOffsets(), {}
        return parts, held

    @property
    def held(self) -> PendingOffsets:
        """The records that are not handed out yet."""
        return self._held

    def clear(self) -> None:
        """Know nothing."""
        self.cut()


def _with(part: NodePart, record: WindowAggregate | Cycle | Trend) -> NodePart | None:
    """The part with what the record adds; None if that is nothing."""
    if isinstance(record, WindowAggregate):
        if record.metric not in MAXIMA:
            return None
        largest = max(record.max, part.maxima.get(record.metric, record.max))
        return replace(part, maxima={**part.maxima, record.metric: largest})
    if record.metric != METRIC:
        return None
    if isinstance(record, Cycle):
        return replace(part, cyclic=record.cyclic, period_s=record.period_s if record.cyclic else None)
    return replace(part, slope_per_s=record.slope_per_s)
