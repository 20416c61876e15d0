"""The ranks of a job beside one another, and when there was news of them: functions of the set of parts."""

from collections.abc import Iterator, Mapping
from typing import Any

from contract.records.insight_parts import JobInsightPart
from streams.operators.workload.rank_samples import COMPARED


def imbalance(parts: list[JobInsightPart]) -> tuple[float, str, str]:
    """The largest difference between two pods in utilization or in power, and the names of the two."""
    found = (0.0, "", "")
    ranks = list(_compared(parts))
    for name in COMPARED:
        known = sorted((figures[name], pod) for pod, figures in ranks if name in figures)
        if len(known) > 1:
            found = max(found, (known[-1][0] - known[0][0], known[0][1], known[-1][1]))
    return found


def _compared(parts: list[JobInsightPart]) -> Iterator[tuple[str, Mapping[str, float]]]:
    """Each pod's name and figures: at the newest beat, or, where not all told of it, at the one before."""
    beats = {part.beat_ms for part in parts if part.beat_ms}
    newest_ms, together = max(beats, default=0), len(beats) < 2
    for part in parts:
        now = together or part.beat_ms < newest_ms
        before = part.figures if part.figures_before is None else part.figures_before
        yield part.pod_name, part.figures if now else before


class News:
    """The time of the newest news of a job's pods, of those that are gone as well: it never goes back.

    News are a pod's insight, its end, and, where there are several pods, that a rank's figures moved.
    """

    def __init__(self) -> None:
        self._told_ms = 0
        self._moved_ms = 0
        self._several = False

    @property
    def ms(self) -> int:
        """In milliseconds; 0 before any."""
        return max(self._told_ms, self._moved_ms) if self._several else self._told_ms

    def take(self, part: JobInsightPart, *, several: bool) -> bool:
        """Take a pod's part, old or new; whether it is news."""
        before_ms = self.ms
        self._told_ms = max(self._told_ms, part.told_ms, part.gone_ms or 0)
        if part.kind == "training":
            self._moved_ms = max(self._moved_ms, part.figures_ms)
        self._several = self._several or several
        return self.ms > before_ms

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"told_ms": self._told_ms, "moved_ms": self._moved_ms, "several": self._several}

    def restore(self, plain: dict[str, Any]) -> None:
        """Take over a snapshot."""
        self._told_ms, self._moved_ms, self._several = plain["told_ms"], plain["moved_ms"], plain["several"]
