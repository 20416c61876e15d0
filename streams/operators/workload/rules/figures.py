"""Means over a pod's last minutes, and what differs between the seconds in which its GPU waits and the
others."""

from dataclasses import dataclass

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.codes import ROWS

WINDOW_S = 180
LEAST_S = 45
_WAITS = 0.6
"""A GPU that does less than this share of its level waits."""
_KILO = 1e3
_UTIL = ROWS["gpu_util_pct"]


@dataclass(frozen=True, slots=True)
class Figures:
    """What bottlenecks are judged by. ``means``: by channel, absent ones left out; ``level_pct``: the
    utilization that nine of ten seconds stay below; ``waits``: share of seconds below 60 % of it;
    ``most``: the largest of each channel; ``loads``: by channel (mean while it waits, mean otherwise)."""

    seconds: int
    means: dict[str, float]
    most: dict[str, float]
    level_pct: float
    waits: float
    loads: dict[str, tuple[float, float]]

    def mean(self, name: str, absent: float = 0.0) -> float:
        """The mean of a channel, or ``absent``."""
        return self.means.get(name, absent)

    def sum_of(self, *names: str) -> float | None:
        """The means of several channels added up; None if none is known."""
        known = [self.means[name] for name in names if name in self.means]
        return sum(known) if known else None

    def contrast(self, name: str) -> tuple[float, float]:
        """How many times more of it there is while the GPU waits, and how much."""
        low, high = self.loads.get(name, (0.0, 0.0))
        return (low + 1.0) / (high + 1.0), low


def figures(values: Floats) -> Figures | None:
    """From decoded channels, shape (channels, seconds), newest second last; None for too few seconds."""
    values = values[:, -WINDOW_S:]
    values = values[:, ~np.isnan(values[_UTIL])]
    util = values[_UTIL]
    if util.size < LEAST_S:
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
    there = [(name, row) for name, row in ROWS.items() if counts[row, 0]]
    return Figures(
        seconds=util.size,
        means={name: mean[row] for name, row in there},
        most={name: most[row] for name, row in there},
        level_pct=level,
        waits=float(np.count_nonzero(waiting)) / util.size,
        loads={name: (low[row], high[row]) for name, row in there},
    )


def evidence(of: Figures) -> dict[str, float]:
    """The figures that every record tells, where they are known."""
    told = {
        "gpu_util_pct": "gpu_util_pct", "mem_copy_util_pct": "mem_copy_util_pct",
        "gpu_mem_pct": "gpu_mem_pct", "power_pct": "power_pct", "power_w": "power_w",
        "cpu_util_pct": "cpu_pct",
        "cpu_throttled_pct": "cpu_throttled_pct",
    }  # fmt: skip
    found = {name: of.means[channel] for name, channel in told.items() if channel in of.means}
    for name, channels in (("io_bytes_per_s", ("read_kb_per_s", "write_kb_per_s")),
                           ("net_bytes_per_s", ("rx_kb_per_s", "tx_kb_per_s"))):  # fmt: skip
        if (rate := of.sum_of(*channels)) is not None:
            found[name] = rate * _KILO
    return found | {"waiting_pct": 100 * of.waits}


def short(value: float) -> float:
    """Three significant digits; more would be noise, and an integer where it is one."""
    rounded = float(f"{value:.3g}")
    return int(rounded) if rounded.is_integer() else rounded
