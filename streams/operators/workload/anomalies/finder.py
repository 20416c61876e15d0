"""Finds all kinds of anomalies of one pod, minute by minute, and what is told of them."""

from dataclasses import dataclass, field

from streams.operators.workload.anomalies.drift import Drift
from streams.operators.workload.anomalies.hang import Hang
from streams.operators.workload.anomalies.kinds import FROZEN, Found
from streams.operators.workload.anomalies.minute import Minute
from streams.operators.workload.anomalies.power import PowerFit
from streams.operators.workload.anomalies.siblings import Siblings
from streams.operators.workload.anomalies.stall import Stall
from streams.operators.workload.anomalies.steps import SlowSteps


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
