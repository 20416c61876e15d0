"""Finds a GPU that is hotter, or clocked lower, than the other GPUs of its pod, by more than it always
was."""

from dataclasses import dataclass, field
from math import isnan, nan
from statistics import median

from dutycycle.contract.records.hours import MINUTE_MS
from streams.operators.workload.anomalies.kinds import HOT_GPU, SLOW_GPU, Found
from streams.operators.workload.anomalies.minute import GpuMinute, Minute
from streams.operators.workload.anomalies.past import Level, Suspicion

BUSY_PCT = 30.0
"""GPUs with less utilization are not compared."""
KNOWN = 20  # minutes at work before anything is told: docs/decisions/0034
HOTTER_C, LEAST_C, SPREAD = 7.0, 3.0, 4.0
"""How much hotter beyond what is usual; how much hotter at all; and how many deviations."""
LOWER_PCT = 4.0
"""How much lower clocks and power are than usual, both of them: at its power limit a chip lowers its clock
alone, and with less to do it takes less power at the same clock."""
NEEDED = 6  # half a dozen odd minutes: a single one begins and ends nothing


@dataclass(slots=True)
class _GpuDeviation:
    """Keeps how one GPU differs from the others: degrees, and clock and power in percent."""

    temp: Level = field(default_factory=Level)
    clock: Level = field(default_factory=Level)
    power: Level = field(default_factory=Level)
    hot: Suspicion = field(default_factory=Suspicion)
    slow: Suspicion = field(default_factory=Suspicion)
    now: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Siblings:
    """Compares the GPUs of one pod, by name."""

    gpus: dict[str, _GpuDeviation] = field(default_factory=dict)

    def add(self, minute: Minute) -> list[Found]:
        """Take the next minute. What holds now."""
        self.gpus = {gpu.name: self.gpus.get(gpu.name) or _GpuDeviation() for gpu in minute.gpus}
        busy = [gpu for gpu in minute.gpus if gpu.util_pct >= BUSY_PCT]
        if len(busy) >= 2:
            for gpu in busy:
                self._compare(gpu, [other for other in busy if other is not gpu], minute.end_ms - MINUTE_MS)
        return [deviation for name, gpu in self.gpus.items() for deviation in _found(name, gpu)]

    def _compare(self, own: GpuMinute, others: list[GpuMinute], start_ms: int) -> None:
        gpu = self.gpus[own.name]
        hotter = own.temp_c - _median([other.temp_c for other in others])
        clock = 100 * (own.clock_mhz / _median([other.clock_mhz for other in others]) - 1)
        power = 100 * (own.power_pct / _median([other.power_pct for other in others]) - 1)
        gpu.now = [hotter, clock, power]
        if not isnan(hotter):
            least = gpu.temp.usual + max(HOTTER_C, SPREAD * gpu.temp.deviation)
            odd = gpu.temp.is_known(KNOWN) and hotter > max(least, LEAST_C)
            gpu.hot.add(start_ms, NEEDED, odd=odd)
            if gpu.hot.is_old:
                gpu.temp, gpu.hot = Level(), Suspicion()
            if not odd:
                gpu.temp.learn(hotter)
        if not isnan(clock + power):
            odd = (
                gpu.clock.is_known(KNOWN)
                and gpu.clock.is_usually_above(clock, LOWER_PCT, SPREAD)
                and gpu.power.is_usually_above(power, LOWER_PCT, SPREAD)
            )
            gpu.slow.add(start_ms, NEEDED, odd=odd)
            if gpu.slow.is_old:
                gpu.clock, gpu.power, gpu.slow = Level(), Level(), Suspicion()
            if not odd:
                gpu.clock.learn(clock)
                gpu.power.learn(power)


def _found(name: str, gpu: _GpuDeviation) -> list[Found]:
    deviations = []
    if gpu.hot.holds:
        figures = {"hotter_c": gpu.now[0], "usually_hotter_c": gpu.temp.usual}
        deviations.append(Found(kind=HOT_GPU, since_ms=gpu.hot.since_ms, evidence=figures, gpu=name))
    if gpu.slow.holds:
        figures = {
            "clock_off_pct": gpu.now[1],
            "power_off_pct": gpu.now[2],
            "usual_clock_off_pct": gpu.clock.usual,
        }
        deviations.append(Found(kind=SLOW_GPU, since_ms=gpu.slow.since_ms, evidence=figures, gpu=name))
    return deviations


def _median(values: list[float]) -> float:
    """Return the median of those that are known; NaN of none."""
    known = [value for value in values if not isnan(value)]
    return median(known) if known else nan
