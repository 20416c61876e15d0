"""Finds a rank that hangs: the others wait for it in kernels that spin, at full utilization and little
power."""

from dataclasses import dataclass, field
from math import isnan

from dutycycle.contract.records.hours import MINUTE_MS
from streams.operators.workload.anomalies.kinds import HANG, Found
from streams.operators.workload.anomalies.minute import Minute
from streams.operators.workload.anomalies.past import Level

FULL_PCT, STOPPED_PCT = 90.0, 3.0
"""Utilization of a GPU that spins, and of one whose rank has stopped."""
FLAT_PCT = 2.5
"""Most deviation of utilization and power between the seconds of a minute in which nothing but waiting
happens."""
COPIES_PCT = 3.0
"""Most activity of the memory controller while kernels spin: they read one word again and again."""
TENSOR_PCT, DRAM_PCT, FP32_PCT = 1.0, 2.0, 2.0
"""The same by the counters of a Hopper, which count: they tell where they are, and not the controller."""
LESS = 0.7
"""Most power over what the pod usually takes at work."""
LESS_COUNTED = 0.9
"""The same where counters say that tensor cores and memory worked, and no longer do: a job that needs little
power spins at not much less. It has to be a sign beside the counters (NVIDIA/DCGM#303)."""
WORKED_PCT = 5.0
"""Least usual activity of tensor cores or memory of a pod of which counters can say that it has stopped."""
KNOWN = 30  # minutes at work before anything is told: docs/decisions/0034
NEEDED = 7
LONGER = 1.5
"""A wait is told when it lasts so many times as long as the longest before it, which ended: a rank that
writes checkpoints lets the others wait, too."""


@dataclass(slots=True)
class Hang:
    """Follows one pod. ``longest``, ``lasts``: minutes of the longest wait that ended, and of the present."""

    power: Level = field(default_factory=Level)
    inside: Level = field(default_factory=Level)
    """Of tensor cores or memory, whichever did more, at work."""
    longest: int = 0
    lasts: int = 0
    since_ms: int = 0
    now: dict[str, float] = field(default_factory=dict)

    def add(self, minute: Minute) -> Found | None:
        """Take the next minute. What holds now, if it does."""
        if isnan(minute.power_pct) or isnan(minute.util_pct):
            return None
        spinning = [gpu for gpu in minute.gpus if gpu.util_pct >= FULL_PCT]
        stopped = [gpu for gpu in minute.gpus if gpu.util_pct <= STOPPED_PCT]
        power = sum(gpu.power_pct for gpu in spinning) / len(spinning) if spinning else minute.power_pct
        # Still: nothing is computed or copied, as far as that is known.
        if isnan(minute.dram_pct):
            is_still = not minute.copy_pct > COPIES_PCT
        else:
            works = minute.tensor_pct > TENSOR_PCT or minute.fp32_pct > FP32_PCT
            is_still = minute.dram_pct <= DRAM_PCT and not works
        worked = self.inside.is_known(KNOWN) and self.inside.usual >= WORKED_PCT
        waits = (
            len(spinning) > 0
            and len(spinning) + len(stopped) == len(minute.gpus)
            and minute.util_spread <= FLAT_PCT and minute.power_spread <= FLAT_PCT
            and is_still
            and self.power.is_known(KNOWN) and power <= (LESS_COUNTED if worked else LESS) * self.power.usual
        )  # fmt: skip
        if not waits:
            self.longest, self.lasts = max(self.longest, self.lasts), 0
            if minute.util_pct >= 50:
                self.power.learn(minute.power_pct)
                if not isnan(minute.dram_pct):
                    self.inside.learn(
                        max(minute.dram_pct, 0.0 if isnan(minute.tensor_pct) else minute.tensor_pct)
                    )
            return None
        self.since_ms = minute.end_ms - MINUTE_MS if self.lasts == 0 else self.since_ms
        self.lasts += 1
        if self.lasts < max(NEEDED, LONGER * self.longest):
            return None
        figures = {
            "power_pct": power,
            "usual_power_pct": self.power.usual,
            "stopped_gpus": float(len(stopped)),
        }
        name = stopped[0].name if len(stopped) == 1 else None
        return Found(kind=HANG, since_ms=self.since_ms, evidence=figures, gpu=name)
