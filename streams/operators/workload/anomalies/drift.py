"""Measures how far a pod's GPUs are from their own past, for the comparison with the other ranks of its
job."""

from dataclasses import dataclass, field
from math import isnan

from streams.operators.workload.anomalies.minute import Minute
from streams.operators.workload.anomalies.past import Level

BUSY_PCT = 30.0
KNOWN = 20  # minutes at work before anything is told: docs/decisions/0034
_NEWEST = 5
"""Minutes that the present is the mean of."""


@dataclass(slots=True)
class Drift:
    """Keeps usual temperature (degrees), clock (MHz) and power (percent) of one pod at work, means over its
    GPUs; and those of the newest minutes."""

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
