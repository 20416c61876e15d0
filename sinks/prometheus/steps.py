"""Measures how fast the trainings of pods step, as they report it: over the last minute. Pure."""

from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from dutycycle.contract.records.processes import Loop, ProcessSample

_WINDOW_MS = 60_000


@dataclass(frozen=True, slots=True)
class StepRates:
    """Holds rates a second. ``samples``: None where a process does not count them."""

    steps: float
    samples: float | None


@dataclass(slots=True)
class StepReports:
    """Keeps the reports of all pods: of each the loops by time, a minute of them."""

    _by_pod: dict[str, deque[tuple[int, list[Loop]]]] = field(default_factory=lambda: defaultdict(deque))

    def add(self, record: ProcessSample) -> None:
        """Take the reports of a node at one tick."""
        loops: dict[str, list[Loop]] = defaultdict(list)
        for process in record.processes:
            if process.loop is not None and process.loop.steps:
                loops[process.pod_uid].append(process.loop)
        for uid, loop in loops.items():
            reports = self._by_pod[uid]
            reports.append((record.ts_ms, loop))
            while reports[0][0] <= record.ts_ms - _WINDOW_MS:
                reports.popleft()

    def rates(self, uid: str, now_ms: int) -> StepRates | None:
        """Return the rates of the minute before ``now_ms``; None of a pod that reported nothing in it."""
        recent = [loops for ts_ms, loops in list(self._by_pod.get(uid, ())) if now_ms - ts_ms < _WINDOW_MS]
        most = [max(loops, key=lambda loop: loop.steps) for loops in recent]
        seconds = sum(loop.seconds for loop in most)
        if seconds <= 0:
            return None
        return StepRates(sum(loop.steps for loop in most) / seconds, _samples_per_s(recent, seconds))

    def forget(self, old_ms: int) -> None:
        """Drop the pods that have reported nothing since."""
        for uid in [uid for uid, reports in self._by_pod.items() if reports[-1][0] <= old_ms]:
            del self._by_pod[uid]


def _samples_per_s(recent: Sequence[Sequence[Loop]], seconds: float) -> float | None:
    counts = [loop.samples for loops in recent for loop in loops]
    known = [count for count in counts if count is not None]
    return sum(known) / seconds if len(known) == len(counts) else None
