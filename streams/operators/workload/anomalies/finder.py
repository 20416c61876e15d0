"""Finds all kinds of anomalies of one pod, minute by minute, and what is told of them."""

from dataclasses import dataclass, field
from math import isnan

from streams.operators.workload.anomalies.hang import Hang
from streams.operators.workload.anomalies.kinds import FROZEN, Found
from streams.operators.workload.anomalies.minute import Minute
from streams.operators.workload.anomalies.past import Level
from streams.operators.workload.anomalies.power import PowerFit
from streams.operators.workload.anomalies.siblings import Siblings
from streams.operators.workload.anomalies.stall import Stall
from streams.operators.workload.anomalies.steps import SlowSteps

BUSY_PCT = 30.0
KNOWN = 20  # minutes at work before anything is told: docs/decisions/0034
_NEWEST = 5
"""Minutes that the present is the mean of."""


@dataclass(slots=True)
class Drift:
    """Keeps usual temperature (degrees), clock (MHz) and power (percent) of one pod at work, means over its
    GPUs, and those of the newest minutes: how far it is from its past, for the comparison with the other
    ranks of its job."""

    usual: list[Level] = field(default_factory=lambda: [Level(), Level(), Level()])
    newest: list[list[float]] = field(default_factory=list)

    def add(self, minute: Minute) -> None:
        """Take the next minute."""
        busy = [gpu for gpu in minute.gpus if gpu.util_pct >= BUSY_PCT]
        if not busy:
            return
        row = [sum(values) / len(busy) for values in zip(*(gpu[2:5] for gpu in busy), strict=True)]
        power, temp, clock = row
        if isnan(power + temp + clock):
            return
        now = [temp, clock, power]
        for level, value in zip(self.usual, now, strict=True):
            level.learn(value)
        self.newest = [*self.newest[1 - _NEWEST :], now]

    def figures(self) -> dict[str, float]:
        """Return degrees warmer, and percent of clock and power lower than usual; empty while unknown."""
        if not self.usual[0].is_known(KNOWN):
            return {}
        temp, clock, power = (sum(column) / len(self.newest) for column in zip(*self.newest, strict=True))
        return {
            "warmer_c": temp - self.usual[0].usual,
            "clock_lower_pct": 100 * (1 - clock / self.usual[1].usual),
            "power_lower_pct": 100 * (1 - power / self.usual[2].usual),
        }


@dataclass(slots=True)
class AnomalyFinder:
    """Follows one pod; plain data. ``current``: what holds now, with the figures of when it was found;
    ``changed_ms``: when that changed last, 0 before anything was found."""

    steps: SlowSteps = field(default_factory=SlowSteps)
    siblings: Siblings = field(default_factory=Siblings)
    power: PowerFit = field(default_factory=PowerFit)
    hang: Hang = field(default_factory=Hang)
    reported: SlowSteps = field(default_factory=lambda: SlowSteps(reported=True))
    stall: Stall = field(default_factory=Stall)
    drift: Drift = field(default_factory=Drift)
    current: tuple[Found, ...] = ()
    changed_ms: int = 0

    def add(self, minute: Minute) -> bool:
        """Take the next minute. Whether something else is told now."""
        self.drift.add(minute)
        hang, stall = self.hang.add(minute), self.stall.add(minute)
        slow, reported = self.steps.add(minute, minute.period_s), self.reported.add(minute, minute.step_s)
        if self.reported.period.count:  # who steps knows how long that takes, whatever cycle was found
            slow = reported
        each = [hang, stall, slow, *self.siblings.add(minute), self.power.add(minute)]
        each += [Found(kind=FROZEN, since_ms=ms, gpu=gpu) for gpu, ms in minute.frozen.items()]
        before = {anomaly.name: anomaly for anomaly in self.current}
        now = tuple(before.get(anomaly.name, anomaly) for anomaly in each if anomaly is not None)
        if now == self.current:
            return False
        self.current, self.changed_ms = now, minute.end_ms
        return True
