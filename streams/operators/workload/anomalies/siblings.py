"""Finds a GPU that is hotter, or clocked lower, than the other GPUs of its pod: by more than it always was,
or because power or heat holds down this one alone, as the driver says."""

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
HELD_PCT, HELD_LOWER_PCT, HELD_NEEDED = 60.0, 15.0, 2
"""Where the driver says that a GPU is held down for so much of the time, and its clock is so far below the
others: no past is needed, and two minutes are enough. By judgement: how far chips at their power limit differ
was not measured."""
_BY = {"throttled_power_pct": "power", "throttled_heat_pct": "heat"}
"""What holds a GPU down, by the name of its evidence."""


@dataclass(slots=True)
class _GpuDeviation:
    """Keeps how one GPU differs from the others: degrees, and clock and power in percent. ``held``: the share
    of the newest minute at work for which it was held down, and that of its power limit which it drew, by the
    names of evidence; empty where it was not, and where it has not been compared for two minutes."""

    temp: Level = field(default_factory=Level)
    clock: Level = field(default_factory=Level)
    power: Level = field(default_factory=Level)
    hot: Suspicion = field(default_factory=Suspicion)
    slow: Suspicion = field(default_factory=Suspicion)
    now: list[float] = field(default_factory=list)
    held: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class Siblings:
    """Compares the GPUs of one pod, by name."""

    gpus: dict[str, _GpuDeviation] = field(default_factory=dict)

    def add(self, minute: Minute) -> list[Found]:
        """Take the next minute. What holds now."""
        self.gpus = {gpu.name: self.gpus.get(gpu.name) or _GpuDeviation() for gpu in minute.gpus}
        busy = [gpu for gpu in minute.gpus if gpu.util_pct >= BUSY_PCT]
        start_ms = minute.end_ms - MINUTE_MS
        compared = set[str]()
        for own in busy:
            others = [other for other in busy if other is not own]
            if others and self._compare(own, others, start_ms):
                compared.add(own.name)
        deviations: list[Found] = []
        for name, gpu in self.gpus.items():
            if gpu.held and name not in compared:
                # A pause of a minute ends nothing; what holds a GPU without work for longer is not known.
                gpu.slow.add(start_ms, HELD_NEEDED, odd=False)
                gpu.held = gpu.held if gpu.slow.holds else {}
            if gpu.hot.holds:
                figures = {"hotter_c": gpu.now[0], "usually_hotter_c": gpu.temp.usual}
                deviations.append(Found(kind=HOT_GPU, since_ms=gpu.hot.since_ms, evidence=figures, gpu=name))
            if gpu.slow.holds:
                figures = {"clock_off_pct": gpu.now[1], "power_off_pct": gpu.now[2]} | gpu.held
                figures |= {"usual_clock_off_pct": gpu.clock.usual} if gpu.clock.is_known(KNOWN) else {}
                deviations.append(
                    Found(kind=SLOW_GPU, since_ms=gpu.slow.since_ms, evidence=figures, gpu=name)
                )
        return deviations

    def held(self) -> dict[str, int]:
        """Count those of its GPUs that are held down while others are not, by what holds them: ``power`` or
        ``heat``."""
        of = [_BY[name] for gpu in self.gpus.values() if gpu.slow.holds for name in gpu.held if name in _BY]
        return {cause: of.count(cause) for cause in dict.fromkeys(of)}

    def _compare(self, own: GpuMinute, others: list[GpuMinute], start_ms: int) -> bool:
        """Learn how a GPU differs from the ``others``; tell whether clocks and power could be compared."""
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
            gpu.held = {}
            if clock <= -HELD_LOWER_PCT and own.by_heat_pct >= HELD_PCT:
                gpu.held = {"throttled_heat_pct": own.by_heat_pct}
            elif clock <= -HELD_LOWER_PCT and own.by_power_pct >= HELD_PCT:
                gpu.held = {"throttled_power_pct": own.by_power_pct, "power_pct": own.power_pct}
            odd = bool(gpu.held) or (
                gpu.clock.is_known(KNOWN)
                and gpu.clock.is_usually_above(clock, LOWER_PCT, SPREAD)
                and gpu.power.is_usually_above(power, LOWER_PCT, SPREAD)
            )
            gpu.slow.add(start_ms, HELD_NEEDED if gpu.held else NEEDED, odd=odd)
            if gpu.slow.is_old and not gpu.held:
                gpu.clock, gpu.power, gpu.slow = Level(), Level(), Suspicion()
            if not odd:
                gpu.clock.learn(clock)
                gpu.power.learn(power)
        return not isnan(clock + power)


def _median(values: list[float]) -> float:
    """Return the median of those that are known; NaN of none."""
    known = [value for value in values if not isnan(value)]
    return median(known) if known else nan
