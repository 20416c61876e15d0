"""Finds a training that reports its steps and does none any more, while it keeps its memory and its GPUs
rest."""

from dataclasses import dataclass, field
from math import isnan

from dutycycle.contract.records.hours import MINUTE_MS
from streams.operators.workload.anomalies.kinds import STALL, Found
from streams.operators.workload.anomalies.minute import Minute
from streams.operators.workload.anomalies.past import RELEARN, Level
from streams.operators.workload.channels import IDLE_PCT

KNOWN = 15
"""Minutes with steps after which they are missed."""
NEEDED = 10
"""Minutes: checkpoints, and the start of an epoch, take less."""
LONGER = 1.5
"""A pause is told when it lasts so many times as long as the longest before it, which ended."""
_LATE_MS = 2 * MINUTE_MS
"""Figures of steps are those of two minutes: so much later it shows that there are none."""


@dataclass(slots=True)
class Stall:
    """Follows one pod. ``stepped``: minutes with steps; ``longest``, ``lasts``: minutes of the longest pause
    that ended, and of the present one. Spinning GPUs are for ``Hang``, and those at work evaluate."""

    memory: Level = field(default_factory=Level)
    step_s: float = 0.0
    stepped: int = 0
    longest: int = 0
    lasts: int = 0
    since_ms: int = 0

    def add(self, minute: Minute) -> Found | None:
        """Take the next minute. What holds now, if it does."""
        if minute.step_s is not None:
            self.longest, self.lasts = max(self.longest, self.lasts), 0
            self.stepped, self.step_s = self.stepped + 1, minute.step_s
            if not isnan(minute.mem_pct):
                self.memory.learn(minute.mem_pct)
            return None
        if minute.mem_pct < self.memory.usual / 2 or self.lasts >= RELEARN:
            self.memory, self.stepped, self.longest, self.lasts = Level(), 0, 0, 0  # the program has ended
        if self.stepped < KNOWN or not self.memory.count or isnan(minute.mem_pct):
            return None
        if minute.util_pct >= IDLE_PCT:
            self.lasts = 0
            return None
        if not isnan(minute.util_pct):
            self.since_ms = minute.end_ms - _LATE_MS if self.lasts == 0 else self.since_ms
            self.lasts += 1
        if self.lasts < max(NEEDED, LONGER * self.longest):
            return None
        return Found(kind=STALL, since_ms=self.since_ms, evidence={"usual_step_s": self.step_s})
