"""Computes what a pod's last minutes look like, as numbers: what its kind is judged by.

``features`` takes decoded channels (``streams.operators.workload.channels``), newest second last. "Recent" is
the last minute, "all" up to four. A figure that cannot be known is the one of a quiet pod, and flagged.
"""

import numpy as np

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Bools, Floats
from streams.operators.columns.vectors import average, correlation, deviation, largest, share_from, sort
from streams.operators.workload.channels import CHANNEL_ROW

_RECENT_S = 60
_BUSY_PCT = 8.0
_MIN_S = 15
"""With fewer seconds of utilization there is nothing to judge."""

NAMES = (
    "util_recent", "util_all", "util_std", "busy_share", "full_share", "busy_level", "busy_noise",
    "copy_ratio", "ups_per_min", "dips_per_min", "run_spread", "rest_longest", "rest_now", "smoothness",
    "periodicity", "period_found",
    "mem_level", "mem_rise_recent", "mem_rise_all", "mem_moves", "host_mem_rise",
    "cpu_recent", "cpu_busy_share", "cpu_spread", "cpu_follows", "cpu_rest_level",
    "rx_follows", "tx_follows", "rx_recent", "tx_recent", "rx_spread", "read_recent", "read_all",
    "write_recent", "write_most", "write_share", "power_busy", "minutes", "no_cgroup", "no_network",
)  # fmt: skip
"""In the order of the vector."""
_UTILIZATION, _MEMORY, _CPU, _POWER = (
    NAMES.index(name) for name in ("util_recent", "mem_level", "cpu_recent", "power_busy")
)
"""Where the figures of each group begin; ``no_cgroup`` and ``no_network`` are the last two."""
_UTIL_ROW, _COPY_ROW, _POWER_ROW, _GPU_MEMORY_ROW, _HOST_MEMORY_ROW, _CPU_ROW = (
    CHANNEL_ROW[name]
    for name in ("busiest_gpu_util_pct", "mem_copy_util_pct", "power_pct", "gpu_mem_pct", "mem_mb", "cpu_pct")
)
_RX_ROW, _TX_ROW, _READ_ROW, _WRITE_ROW = (
    CHANNEL_ROW[f"{name}_kb_per_s"] for name in ("rx", "tx", "read", "write")
)


def features(values: Floats, period_confidence: float) -> Floats | None:
    """Return the vector, shape (len(NAMES),); None with less than ``_MIN_S`` seconds of utilization.

    ``values``: shape (channels, seconds). ``period_confidence``: of the cycle that the node found, 0 for
    none.
    """
    out = np.empty(len(NAMES))
    return out if _features(np.ascontiguousarray(values), period_confidence, out) else None


@kernel
def _filled(values: Floats) -> Floats:
    """Return values whose gaps are filled with the value before them; 0 before the first."""
    filled, last = np.empty(values.size), 0.0
    for at in range(values.size):
        if not np.isnan(values[at]):
            last = values[at]
        filled[at] = last
    return filled


@kernel
def _logs(values: Floats) -> Floats:
    """Return the logarithm of what is there, and of 0 where nothing is."""
    logs = _filled(values)
    for at in range(logs.size):
        logs[at] = np.log2(1 + logs[at])
    return logs


@kernel
def _recent(values: Floats) -> float:
    """Return the mean of the last minute."""
    return average(values[max(values.size - _RECENT_S, 0) :])


@kernel
def _absent(values: Floats) -> float:
    """Return the share of the values that are absent."""
    count = 0
    for value in values:
        count += np.isnan(value)
    return count / values.size


@kernel
def _median(values: Floats) -> float:
    """Return the middle value, of two the larger; 0 of none."""
    ordered = values.copy()
    sort(ordered)
    return float(ordered[values.size // 2]) if values.size else 0.0


@kernel
def _mean_where(values: Floats, where: Bools) -> float:
    """Return the mean of the values that are there and picked; 0 of none."""
    total, count = 0.0, 0
    for at in range(values.size):
        if where[at] and not np.isnan(values[at]):
            total += values[at]
            count += 1
    return total / count if count else 0.0


@kernel
def _periodicity(util: Floats) -> float:
    """Return the largest autocorrelation at a lag from three seconds to a third, after the first that is
    below 0."""
    n = util.size
    lags = n // 2
    sums, off = np.zeros(lags), util - average(util)
    for at in range(n):
        for lag in range(min(lags, n - at)):
            sums[lag] += off[at] * off[at + lag]
    if sums[0] <= n * 1.0:  # a standard deviation of one percent: nothing moves
        return 0.0
    largest, below = 0.0, False
    for lag in range(lags):
        below = below or sums[lag] < 0
        if below and lag >= 3:
            largest = max(largest, sums[lag] / sums[0] * n / (n - lag))
    return min(largest, 1.0)


@kernel
def _utilization(util: Floats, copy: Floats, period_confidence: float, out: Floats) -> None:
    busy = util >= _BUSY_PCT
    level = _median(util[busy])
    out[0], out[1], out[2] = _recent(util) / 100, average(util) / 100, deviation(util) / 50
    out[3], out[4], out[5] = share_from(util, _BUSY_PCT), share_from(util, 90.0), level / 100
    out[7] = min(_mean_where(copy, busy) / level, 1.0) if busy.any() else 0.0
    # How often it starts to work and how regularly, how often it dips, how noisy it is at work, and for how
    # long it rests.
    high = util >= 0.6 * max(level, _BUSY_PCT)
    starts, count, dips = np.empty(util.size), 0, 0
    moved, used, before = 0.0, 0, 0.0
    longest = rest = 0
    for at in range(util.size):
        rest = 0 if busy[at] else rest + 1
        longest = max(longest, rest)
        if at and busy[at] and not busy[at - 1]:
            starts[count] = at
            count += 1
        dips += at > 0 and high[at - 1] and not high[at]
        if high[at] and busy[at]:
            moved += abs(util[at] - before) if used else 0.0
            before = util[at]
            used += 1
    minutes = util.size / 60
    out[6] = moved / (used - 1) / 20 if used > 1 else 0.0
    out[8], out[9] = min(count / minutes, 20.0) / 10, min(dips / minutes, 20.0) / 10
    apart = starts[1:count] - starts[: max(count - 1, 0)]
    out[10] = min(deviation(apart) / average(apart), 2.0) if apart.size > 2 else 1.0
    out[11], out[12] = np.log2(1 + longest) / 8, np.log2(1 + rest) / 8
    out[13], out[14], out[15] = (
        correlation(util[1:], util[:-1], 1e-6, 0.0),
        _periodicity(util),
        period_confidence,
    )


@kernel
def _host(rows: Floats, util: Floats, out: Floats) -> None:
    cpu = _filled(rows[_CPU_ROW])
    logs, resting = _logs(cpu), cpu[util < _BUSY_PCT]
    out[0], out[1], out[2] = _recent(logs) / 10, share_from(cpu, 20.0), deviation(logs) / 3
    out[3] = correlation(util, logs, 1e-6, 0.0)
    out[4] = np.log2(1 + _median(resting)) / 10 if resting.size else 0.5
    rx, tx, read, write = (
        _logs(rows[_RX_ROW]), _logs(rows[_TX_ROW]), _logs(rows[_READ_ROW]), _logs(rows[_WRITE_ROW]),
    )  # fmt: skip
    out[5], out[6] = correlation(util, rx, 1e-6, 0.0), correlation(util, tx, 1e-6, 0.0)
    out[7], out[8], out[9] = _recent(rx) / 20, _recent(tx) / 20, deviation(rx) / 5
    out[10], out[11] = _recent(read) / 20, average(read) / 20
    out[12], out[13], out[14] = _recent(write) / 20, largest(write) / 20, share_from(write, 5.0)


@entry("boolean(float64[:, ::1], float64, float64[::1])")
def _features(values: Floats, period_confidence: float, out: Floats) -> bool:
    """Fill ``out``, if there is enough to judge, and tell whether there is."""
    seconds = values.shape[1]
    first, count = seconds, 0
    for at in range(seconds - 1, -1, -1):
        if not np.isnan(values[_UTIL_ROW, at]):
            first = at
            count += 1
    if count < _MIN_S:
        return False
    # Seconds before the first that was measured do not belong to the pod.
    rows = values[:, first:].copy()
    util = _filled(rows[_UTIL_ROW])
    _utilization(util, rows[_COPY_ROW], period_confidence, out[_UTILIZATION:])
    memory, host = _filled(rows[_GPU_MEMORY_ROW]), _filled(rows[_HOST_MEMORY_ROW])
    size, moves = util.size, 0
    for at in range(1, size):
        moves += abs(memory[at] - memory[at - 1]) >= 1
    recent, of_memory = memory[max(size - _RECENT_S, 0) :], out[_MEMORY:]
    of_memory[0] = memory[-1] / 100
    of_memory[1] = (average(recent[-5:]) - average(recent[:5])) / 50
    of_memory[2] = (average(memory[-5:]) - average(memory[:5])) / 50
    of_memory[3] = min(moves / max(size - 1, 1) * 10, 2.0)
    rise = np.log2((1 + host[-1]) / (1 + host[max(size - _RECENT_S, 0)]))
    of_memory[4] = min(max(rise, -1.0), 2.0)
    _host(rows, util, out[_CPU:])
    out[_POWER] = _mean_where(rows[_POWER_ROW], util >= _BUSY_PCT) / 100
    out[_POWER + 1] = min(util.size / 240, 1.0)
    out[_POWER + 2], out[_POWER + 3] = _absent(rows[_CPU_ROW]), _absent(rows[_RX_ROW])
    return True
