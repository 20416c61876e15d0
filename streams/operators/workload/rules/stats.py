"""Statistics of a pod's last minutes, which the rules judge by, and the largest values of its last hour."""

from dataclasses import dataclass, field

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import CHANNEL_ROW

_WINDOW_S = 180
_MIN_S = 45
_WAITS = 0.6
"""A GPU waits in a second with less than this share of its usual utilization."""
_UTIL = CHANNEL_ROW["busiest_gpu_util_pct"]
_BLOCK_MS = 300_000
_BLOCKS = 12
_EVIDENCE = {
    "gpu_util_pct": "gpu_util_pct", "mem_copy_util_pct": "mem_copy_util_pct", "gpu_mem_pct": "gpu_mem_pct",
    "power_pct": "power_pct", "power_w": "power_w", "cpu_util_pct": "cpu_pct",
    "cpu_throttled_pct": "cpu_throttled_pct",
}  # fmt: skip
"""Names in a record's evidence, and the channels that they are means of."""
_RATES = {
    "io_bytes_per_s": ("read_kb_per_s", "write_kb_per_s"), "net_bytes_per_s": ("rx_kb_per_s", "tx_kb_per_s")
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PodStats:
    """Of the last three minutes at most; only seconds with a known utilization count.

    ``seconds``: how many there are. ``means``, ``most``: mean and largest value by channel, absent channels
    left out. ``level_pct``: the 90th percentile of utilization, the usual one of a GPU at work. ``waits``:
    the share of seconds in which utilization is below 60 % of that, 0-1. ``loads``: by channel, its mean over
    those seconds and its mean over the others.
    """

    seconds: int
    means: dict[str, float]
    most: dict[str, float]
    level_pct: float
    waits: float
    loads: dict[str, tuple[float, float]]

    def mean(self, channel: str, absent: float = 0.0) -> float:
        """The mean of a channel, or ``absent``."""
        return self.means.get(channel, absent)

    def sum_of(self, *channels: str) -> float | None:
        """The sum of the means of several channels; None if none is known."""
        known = [self.means[name] for name in channels if name in self.means]
        return sum(known) if known else None

    def contrast(self, channel: str) -> tuple[float, float]:
        """How many times more of it there is while the GPU waits than otherwise, and how much there is
        then."""
        waiting, otherwise = self.loads.get(channel, (0.0, 0.0))
        return (waiting + 1.0) / (otherwise + 1.0), waiting

    def evidence(self) -> dict[str, float]:
        """The figures that every insight has in its evidence, as far as they are known."""
        found = {name: self.means[channel] for name, channel in _EVIDENCE.items() if channel in self.means}
        for name, channels in _RATES.items():
            if (rate := self.sum_of(*channels)) is not None:
                found[name] = rate * 1e3
        return found | {"waiting_pct": 100 * self.waits}


def pod_stats(values: Floats) -> PodStats | None:
    """Statistics of values of all channels, shape (channels, seconds), newest second last. None for fewer
    than 45 seconds with a known utilization."""
    values = values[:, -_WINDOW_S:]
    values = values[:, ~np.isnan(values[_UTIL])]
    util = values[_UTIL]
    if util.size < _MIN_S:
        return None
    level = float(np.partition(util, int(0.9 * util.size))[int(0.9 * util.size)])
    waiting = util < _WAITS * level
    known = ~np.isnan(values)
    filled = np.where(known, values, 0.0)
    # Of every channel at once: the sum and count of all seconds, and of those in which the GPU waits.
    picks = np.stack([np.ones(util.size), waiting]).T
    sums, counts = filled @ picks, known @ picks
    sums = np.column_stack((sums, sums[:, 0] - sums[:, 1]))
    counts = np.column_stack((counts, counts[:, 0] - counts[:, 1]))
    mean, low, high = (sums / np.maximum(counts, 1)).T.tolist()
    most = filled.max(axis=1).tolist()
    there = [(name, row) for name, row in CHANNEL_ROW.items() if counts[row, 0]]
    return PodStats(
        seconds=util.size,
        means={name: mean[row] for name, row in there},
        most={name: most[row] for name, row in there},
        level_pct=level,
        waits=float(np.count_nonzero(waiting)) / util.size,
        loads={name: (low[row], high[row]) for name, row in there},
    )


@dataclass(slots=True)
class HourlyMax:
    """The largest value of the last hour, in whole numbers, kept by five minutes.

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
        """The largest value, of at least one."""
        return max(high for _, high in self.blocks)


def three_digits(value: float) -> float:
    """Three significant digits; more would be noise. An integer where it is one."""
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded.is_integer() else rounded
