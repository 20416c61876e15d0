"""Computes statistics of a pod's last minutes, which the rules judge by, and the largest values of its last
hour."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from streams.compiled import entry
from streams.operators.columns.arrays import Floats
from streams.operators.columns.vectors import sorted_known
from streams.operators.workload.channels import CHANNEL_ROW

_WINDOW_S = 180  # rules judge means of three minutes at most: docs/decisions/0019
_MIN_S = 45
_WAITS = 0.6
"""A GPU waits in a second with less than this share of its usual utilization."""
_BLINKS = 0.05
"""Share of the seconds in which a GPU that does nothing may look as if it did."""
_UTIL = CHANNEL_ROW["busiest_gpu_util_pct"]
_FIGURES = 5
# The most of an hour, by blocks: a size grows at once and shrinks after an hour (docs/decisions/0019).
_BLOCK_MS = 300_000
_BLOCKS = 12
_EVIDENCE = {
    "gpu_util_pct": "gpu_util_pct", "mem_copy_util_pct": "mem_copy_util_pct", "gpu_mem_pct": "gpu_mem_pct",
    "power_pct": "power_pct", "power_w": "power_w", "cpu_util_pct": "cpu_pct",
    "cpu_throttled_pct": "cpu_throttled_pct", "sm_active_pct": "sm_active_pct",
    "tensor_active_pct": "tensor_active_pct", "dram_active_pct": "dram_active_pct",
}  # fmt: skip
"""Names in a record's evidence, and the channels that they are means of."""
_RATES = {
    "io_bytes_per_s": ("read_kb_per_s", "write_kb_per_s"), "net_bytes_per_s": ("rx_kb_per_s", "tx_kb_per_s")
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PodStats:
    """Holds statistics of the last three minutes at most; only seconds with a known utilization count.

    ``seconds``: how many there are. ``means``, ``most``: mean and largest value by channel, absent channels
    left out. ``level_pct``: the 90th percentile of utilization, the usual one of a GPU at work. ``waits``:
    the share of seconds in which utilization is below 60 % of that, 0-1. ``loads``: by channel, its mean over
    those seconds and its mean over the others. ``idle_gpus``: how many GPUs are idle in all but a few of the
    seconds; 0 if that is not known. ``held``: how many are held down while others are not, by what holds
    them: ``power`` or ``heat``.
    """

    seconds: int
    means: dict[str, float]
    most: dict[str, float]
    level_pct: float
    waits: float
    loads: dict[str, tuple[float, float]]
    idle_gpus: int = 0
    held: Mapping[str, int] = field(default_factory=dict)

    def mean(self, channel: str, absent: float = 0.0) -> float:
        """Return the mean of a channel, or ``absent``."""
        return self.means.get(channel, absent)

    def sum_of(self, *channels: str) -> float | None:
        """Return the sum of the means of several channels; None if none is known."""
        known = [self.means[name] for name in channels if name in self.means]
        return sum(known) if known else None

    def contrast(self, channel: str) -> tuple[float, float]:
        """Return how many times more of it there is while the GPU waits than otherwise, and how much there is
        then."""
        waiting, otherwise = self.loads.get(channel, (0.0, 0.0))
        return (waiting + 1.0) / (otherwise + 1.0), waiting

    def evidence(self) -> dict[str, float]:
        """Return the figures that every insight has in its evidence, as far as they are known."""
        evidence = {name: self.means[channel] for name, channel in _EVIDENCE.items() if channel in self.means}
        for name, channels in _RATES.items():
            if (rate := self.sum_of(*channels)) is not None:
                evidence[name] = rate * 1e3
        return evidence | {"waiting_pct": 100 * self.waits}


def pod_stats(values: Floats, held: Mapping[str, int] | None = None) -> PodStats | None:
    """Return statistics of values of all channels, shape (channels, seconds), newest second last; ``held``:
    see ``PodStats``. None for fewer than 45 seconds with a known utilization."""
    figures = np.empty((len(CHANNEL_ROW), _FIGURES))
    seconds, level, waits = _statistics(np.ascontiguousarray(values), figures)
    if seconds < _MIN_S:
        return None
    mean, low, high, most, count = figures.T.tolist()
    # GPUs that did nothing in all of the seconds but for the few in which they blinked. Those that work in
    # turns are idle in most seconds, one or the other, and each of them works.
    idle = values[CHANNEL_ROW["idle_gpus"], -_WINDOW_S:]
    idle = np.sort(idle[~np.isnan(idle)])
    there = [(name, row) for name, row in CHANNEL_ROW.items() if count[row]]
    return PodStats(
        seconds=seconds,
        means={name: mean[row] for name, row in there},
        most={name: most[row] for name, row in there},
        level_pct=level,
        waits=waits,
        loads={name: (low[row], high[row]) for name, row in there},
        idle_gpus=int(idle[int(_BLINKS * idle.size)]) if idle.size else 0,
        held=held or {},
    )


@entry("Tuple((int64, float64, float64))(float64[:, ::1], float64[:, ::1])")
def _statistics(values: Floats, figures: Floats) -> tuple[int, float, float]:
    """Return the seconds that count, and if they are enough the usual utilization, and how often the GPU
    waits; into ``figures`` of each channel its mean, those while the GPU waits and otherwise, its largest
    value, and in how many seconds it is there."""
    util = values[_UTIL, max(values.shape[1] - _WINDOW_S, 0) :]
    known = np.flatnonzero(~np.isnan(util))
    seconds, first = len(known), values.shape[1] - len(util)
    if seconds < _MIN_S:
        return seconds, 0.0, 0.0
    level = sorted_known(util)[int(0.9 * seconds)]
    waiting = util < _WAITS * level
    for channel in range(len(values)):
        total, count, most = np.zeros(2), np.zeros(2), 0.0
        for second in known:
            value = values[channel, first + second]
            if not np.isnan(value):
                total[int(waiting[second])] += value
                count[int(waiting[second])] += 1
                most = max(most, value)
        of = figures[channel]
        of[0], of[1] = total.sum() / max(count.sum(), 1.0), total[1] / max(count[1], 1.0)
        of[2], of[3], of[4] = total[0] / max(count[0], 1.0), most, count.sum()
    return seconds, level, np.count_nonzero(waiting[known]) / seconds


@dataclass(slots=True)
class HourlyMax:
    """Keeps the largest value of the last hour, in whole numbers, kept by five minutes.

    ``blocks``: [number of the five minutes since the epoch, largest value], in the order of time, as values
    come.
    """

    blocks: list[list[int]] = field(default_factory=list)

    def add(self, end_ms: int, value: int) -> None:
        """Take a value of the time before ``end_ms``."""
        block = end_ms // _BLOCK_MS
        if self.blocks and self.blocks[-1][0] == block:
            self.blocks[-1][1] = max(self.blocks[-1][1], value)
        else:
            self.blocks.append([block, value])
        while self.blocks[0][0] <= block - _BLOCKS:
            self.blocks.pop(0)

    @property
    def value(self) -> int:
        """Return the largest value, of at least one."""
        return max(high for _, high in self.blocks)


def three_digits(value: float) -> float:
    """Round to three significant digits; more would be noise. An integer where it is one."""
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded.is_integer() else rounded
