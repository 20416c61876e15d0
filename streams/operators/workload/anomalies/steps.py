"""Finds a job whose steps take longer than they used to, by its own past: as it reports them, or else the
period of its cycle."""

from dataclasses import dataclass, field
from math import isnan

from dutycycle.contract.records.hours import MINUTE_MS
from streams.operators.workload.anomalies.kinds import SLOW_STEPS, Found
from streams.operators.workload.anomalies.minute import Minute
from streams.operators.workload.anomalies.past import Level, Suspicion

KNOWN = 30
"""Minutes with a cycle after which its period is known."""
SLOWER, SPREAD = 0.04, 4.0
"""Least share by which a period has to be longer, and least number of its deviations."""
ANOTHER = 0.7
"""A period that is longer by more, or shorter by as much as slower ones are longer, is another rhythm."""
MEMORY_PCT = 1.0
"""Memory that moved by more: another batch size, or another program."""
MOST_S = 240.0
"""A longer cycle is that of checkpoints or of demand."""
FAST_S = 5.0
"""The period of faster steps is read from few samples each, and now and then wrongly."""
# Minutes that have to be slow: evaluations and periods read wrongly last for less (docs/decisions/0034).
NEEDED, NEEDED_FAST = 8, 20
POWER = 1.08
"""Slower steps need no more power, and not much less than in proportion. Else it is another program."""
BEGIN_ANEW = 12
"""Minutes in a row of another rhythm, or with other memory, after which the past begins anew."""


@dataclass(slots=True)
class SlowSteps:
    """Follows one pod. ``reported``: by the times that its training reports, which are those of steps for
    sure: they need no count to be believed, and no other rhythm is taken for them."""

    period: Level = field(default_factory=Level)
    memory: Level = field(default_factory=Level)
    power: Level = field(default_factory=Level)
    suspicion: Suspicion = field(default_factory=Suspicion)
    others: int = 0
    now_s: float = 0.0
    reported: bool = False

    def add(self, minute: Minute, period_s: float | None) -> Found | None:
        """Take the next minute, at whose end a step took ``period_s``. What holds now, if it does."""
        if (self.memory.count and minute.mem_pct < self.memory.usual / 2) or self.suspicion.is_old:
            self._begin()  # the program has ended
        if period_s is None or period_s > MOST_S:
            return self._found() if self.suspicion.holds else None
        self.now_s = period_s
        slow = another = False  # slower than usual; another rhythm, or another program
        if self.period.is_known(KNOWN):
            ratio = self.now_s / self.period.usual
            least = 1 + max(SLOWER, SPREAD * self.period.deviation / self.period.usual)
            moved = abs(minute.mem_pct - self.memory.usual) > MEMORY_PCT  # False if it is not known
            if self.power.count and ratio > 1:
                share = minute.power_pct / self.power.usual
                moved = moved or share > POWER or share < 1 / (POWER * ratio**2)
            another = moved or (ratio > 1 + ANOTHER and not self.reported) or ratio < 2 - least
            slow = least < ratio and not another
        self.others = self.others + 1 if another else 0
        if self.others >= BEGIN_ANEW:
            self._begin()
        elif not slow and not another:
            for level, value in (
                (self.period, self.now_s),
                (self.memory, minute.mem_pct),
                (self.power, minute.power_pct),
            ):
                if not isnan(value):
                    level.learn(value)
        needed = NEEDED if self.reported or self.period.usual >= FAST_S else NEEDED_FAST
        is_suspected = self.suspicion.add(minute.end_ms - MINUTE_MS, needed, odd=slow)
        return self._found() if is_suspected else None

    def _begin(self) -> None:
        self.period, self.memory, self.power = Level(), Level(), Level()
        self.suspicion, self.others = Suspicion(), 0

    def _found(self) -> Found:
        return Found(
            kind=SLOW_STEPS, since_ms=self.suspicion.since_ms,
            evidence={"period_s": self.now_s, "usual_period_s": self.period.usual},
        )  # fmt: skip
