"""Finds power that does not fit utilization: clocks that are held down, or work that does not show."""

from dataclasses import dataclass, field
from math import isnan

from dutycycle.contract.records.hours import MINUTE_MS
from streams.operators.workload.anomalies.kinds import POWER, Found
from streams.operators.workload.anomalies.minute import Minute
from streams.operators.workload.anomalies.past import Level, Suspicion

BANDS = 5
"""Of utilization, each with its usual power."""
KNOWN = 20  # minutes at work before anything is told: docs/decisions/0034
BUSY_PCT = 40.0
LOWER, SPREAD = 0.06, 4.0
"""Share by which the clocks, and the power at this utilization, are both lower than usual."""
IDLE_PCT, BEYOND_PCT = 25.0, 12.0
"""No GPU at rest takes more of its limit; and a share of the limit beyond that and one for each percent of
utilization."""
NEEDED = 6  # half a dozen odd minutes: a single one begins and ends nothing


@dataclass(slots=True)
class PowerFit:
    """Follows one pod."""

    clock: Level = field(default_factory=Level)
    bands: list[Level] = field(default_factory=lambda: [Level() for _ in range(BANDS)])
    low: Suspicion = field(default_factory=Suspicion)
    high: Suspicion = field(default_factory=Suspicion)
    now: dict[str, float] = field(default_factory=dict)

    def add(self, minute: Minute) -> Found | None:
        """Take the next minute. What holds now, if it does."""
        if isnan(minute.util_pct) or isnan(minute.power_pct):
            return None
        start_ms = minute.end_ms - MINUTE_MS
        band = self.bands[min(int(minute.util_pct * BANDS / 100), BANDS - 1)]
        clocks = [gpu.clock_mhz for gpu in minute.gpus if not isnan(gpu.clock_mhz)]
        clock = sum(clocks) / len(clocks) if clocks else 0.0
        held = (
            minute.util_pct >= BUSY_PCT and clock > 0 and self.clock.is_known(KNOWN) and band.is_known(KNOWN)
        )
        held = held and all(
            level.is_usually_above(value, LOWER * level.usual, SPREAD)
            for value, level in ((clock, self.clock), (minute.power_pct, band))
        )
        most = IDLE_PCT + minute.util_pct * (1 - IDLE_PCT / 100) + BEYOND_PCT
        hidden = minute.power_pct > most
        self.now = {"power_pct": minute.power_pct, "gpu_util_pct": minute.util_pct}
        if held:
            self.now |= {
                "usual_power_pct": band.usual,
                "sm_clock_mhz": clock,
                "usual_sm_clock_mhz": self.clock.usual,
            }
        else:
            band.learn(minute.power_pct)
            if clock > 0 and minute.util_pct >= BUSY_PCT:
                self.clock.learn(clock)
        suspected = [self.low.add(start_ms, NEEDED, odd=held), self.high.add(start_ms, NEEDED, odd=hidden)]
        if self.low.is_old:
            self.clock, self.low = Level(), Suspicion()
        if not any(suspected):
            return None
        since_ms = min(suspicion.since_ms for suspicion in (self.low, self.high) if suspicion.holds)
        return Found(kind=POWER, since_ms=since_ms, evidence=dict(self.now))
