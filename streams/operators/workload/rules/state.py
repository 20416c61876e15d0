"""What holds of a pod beside its insight: its cycle, since when a training lost it, when memory is full."""

from dataclasses import dataclass

from contract.records.parts import WorkloadState
from contract.units import END_OF_TIME_MS
from streams.operators.workload.join import JoinedSpan

STATE_MS = 30_000
"""The state is that of the last half minute, aligned to the Unix epoch: so whatever is sent in between, and
whenever a pod's identity becomes known, the last record says the same."""
_USUAL_MS = 600_000
"""A training that had a cycle for so long has lost it when it has none. One that is chance ends before."""


@dataclass(slots=True)
class StateTracker:
    """Follows the spans of one pod. ``cyclic_since_ms`` stays while a cycle is lost. ``trains``: the pod
    was a training when its cycle was seen last."""

    state: WorkloadState | None = None
    cyclic_since_ms: int | None = None
    trains: bool = False
    lost_ms: int | None = None

    def add(self, span: JoinedSpan, kind: str | None, idle_since_ms: int | None) -> None:
        """Take the next span. ``kind`` was published last; since ``idle_since_ms`` no GPU was used."""
        part, end_ms = span.gpu, min(span.end_ms, END_OF_TIME_MS)
        if part.period_s is not None:
            self.cyclic_since_ms = part.start_ms if self.cyclic_since_ms is None else self.cyclic_since_ms
            self.trains, self.lost_ms = kind == "training", None
        elif self.cyclic_since_ms is not None and self.lost_ms is None:
            if self.trains and part.start_ms - self.cyclic_since_ms >= _USUAL_MS:
                self.lost_ms = part.start_ms
            else:
                self.cyclic_since_ms = None
        if self.state is None or end_ms % STATE_MS == 0:
            self.state = WorkloadState(
                seen_ms=end_ms, period_s=part.period_s, confidence=part.period_confidence,
                lost_ms=self.lost_ms, idle_since_ms=idle_since_ms,
                mem_full_ms=None if span.cgroup is None else span.cgroup.mem_full_ms,
            )  # fmt: skip
