"""What a pod's last minutes look like, as numbers: what its kind is judged by.

``features`` takes decoded channels (``streams.operators.workload.channels``), newest second last. "Recent" is
the last minute, "all" up to four. A figure that cannot be known is the one of a quiet pod, and flagged.
"""

from math import log2, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.operators.columns.arrays import Bools, Floats
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


def features(values: Floats, period_confidence: float) -> Floats | None:
    """The vector, shape (len(NAMES),); None with less than ``_MIN_S`` seconds of utilization.

    ``values``: shape (channels, seconds). ``period_confidence``: of the cycle that the node found, 0 for
    none.
    """
    known = ~np.isnan(values[CHANNEL_ROW["busiest_gpu_util_pct"]])
    if np.count_nonzero(known) < _MIN_S:
        return None
    # Seconds before the first that was measured do not belong to the pod.
    rows = values[:, int(np.argmax(known)) :]
    util = _filled(rows[CHANNEL_ROW["busiest_gpu_util_pct"]])
    found = {
        **_utilization(util, _row(rows, "mem_copy_util_pct"), period_confidence),
        **_memory(rows), **_cpu(rows, util), **_traffic(rows, util),
        "power_busy": _mean(_row(rows, "power_pct")[util >= _BUSY_PCT]) / 100,
        "minutes": min(util.size / 240, 1.0),
    }  # fmt: skip
    return np.array([found[name] for name in NAMES])


def _utilization(util: Floats, copy: Floats, period_confidence: float) -> dict[str, float]:
    busy = util >= _BUSY_PCT
    level = _median(util[busy])
    high = util >= 0.6 * max(level, _BUSY_PCT)
    ups = np.flatnonzero(busy[1:] & ~busy[:-1]) + 1
    dips = np.count_nonzero(high[:-1] & ~high[1:])
    minutes = util.size / 60
    spans = ups[1:] - ups[:-1]
    rests = _runs(~busy)
    used = util[high & busy]
    return {
        "util_recent": _avg(util[-_RECENT_S:]) / 100,
        "util_all": _avg(util) / 100,
        "util_std": _std(util) / 50,
        "busy_share": _avg(busy),
        "full_share": _avg(util >= 90),
        "busy_level": level / 100,
        "busy_noise": _avg(abs(used[1:] - used[:-1])) / 20 if used.size > 1 else 0.0,
        "copy_ratio": min(_mean(copy[busy]) / level, 1.0) if busy.any() else 0.0,
        "ups_per_min": min(ups.size / minutes, 20.0) / 10,
        "dips_per_min": min(dips / minutes, 20.0) / 10,
        "run_spread": min(_std(spans) / _avg(spans), 2.0) if spans.size > 2 else 1.0,
        "rest_longest": log2(1 + max(rests, default=0)) / 8,
        "rest_now": log2(1 + (rests[-1] if not busy[-1] and rests else 0)) / 8,
        "smoothness": _follows(util[1:], util[:-1]),
        "periodicity": _periodicity(util),
        "period_found": period_confidence,
    }


def _memory(rows: Floats) -> dict[str, float]:
    memory, host = _filled(_row(rows, "gpu_mem_pct")), _filled(_row(rows, "mem_mb"))
    recent = memory[-_RECENT_S:]
    steps = abs(memory[1:] - memory[:-1])
    return {
        "mem_level": float(memory[-1]) / 100,
        "mem_rise_recent": (_avg(recent[-5:]) - _avg(recent[:5])) / 50,
        "mem_rise_all": (_avg(memory[-5:]) - _avg(memory[:5])) / 50,
        "mem_moves": min(np.count_nonzero(steps >= 1) / max(steps.size, 1) * 10, 2.0),
        "host_mem_rise": min(max(log2((1 + float(host[-1])) / (1 + float(host[-_RECENT_S:][0]))), -1.0), 2.0),
    }


def _cpu(rows: Floats, util: Floats) -> dict[str, float]:
    raw = _row(rows, "cpu_pct")
    cpu = _filled(raw)
    logs = np.log2(1 + cpu)
    resting = cpu[util < _BUSY_PCT]
    return {
        "cpu_recent": _avg(logs[-_RECENT_S:]) / 10,
        "cpu_busy_share": _avg(cpu >= 20),
        "cpu_spread": _std(logs) / 3,
        "cpu_follows": _follows(util, logs),
        "cpu_rest_level": log2(1 + _median(resting)) / 10 if resting.size else 0.5,
        "no_cgroup": _avg(np.isnan(raw)),
    }


def _traffic(rows: Floats, util: Floats) -> dict[str, float]:
    raw = _row(rows, "rx_kb_per_s")
    rx, tx, read, write = (
        np.log2(1 + _filled(_row(rows, f"{name}_kb_per_s"))) for name in ("rx", "tx", "read", "write")
    )
    return {
        "rx_follows": _follows(util, rx),
        "tx_follows": _follows(util, tx),
        "rx_recent": _avg(rx[-_RECENT_S:]) / 20,
        "tx_recent": _avg(tx[-_RECENT_S:]) / 20,
        "rx_spread": _std(rx) / 5,
        "read_recent": _avg(read[-_RECENT_S:]) / 20,
        "read_all": _avg(read) / 20,
        "write_recent": _avg(write[-_RECENT_S:]) / 20,
        "write_most": float(write.max()) / 20,
        "write_share": _avg(write >= 5),
        "no_network": _avg(np.isnan(raw)),
    }


def _row(rows: Floats, name: str) -> Floats:
    return np.asarray(rows[CHANNEL_ROW[name]])


def _filled(values: Floats) -> Floats:
    """Gaps filled with the value before them; 0 before the first."""
    known = ~np.isnan(values)
    if known.all():
        return values
    last: npt.NDArray[np.int64] = np.maximum.accumulate(np.where(known, np.arange(values.size), -1))
    return np.where(last >= 0, values[np.maximum(last, 0)], 0.0)


def _avg(values: npt.NDArray[Any]) -> float:
    """The mean of at least one value, a third as costly as ``values.mean()``."""
    return float(np.add.reduce(values)) / values.size


def _std(values: npt.NDArray[Any]) -> float:
    apart = values - _avg(values)
    return sqrt(float(apart @ apart) / values.size)


def _median(values: Floats) -> float:
    """The middle value, of two the larger; 0 of none."""
    middle = values.size // 2
    return float(np.partition(values, middle)[middle]) if values.size else 0.0


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return _avg(known) if known.size else 0.0


def _runs(what: Bools) -> list[int]:
    """Lengths of the runs in which ``what`` holds."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], what, [False])).astype(np.int8)))
    return [int(length) for length in edges[1::2] - edges[::2]]


def _follows(one: Floats, other: Floats) -> float:
    """Pearson's correlation; 0 where one of the two does not move."""
    a, b = one - _avg(one), other - _avg(other)
    size = sqrt(float(a @ a) * float(b @ b))
    return float(a @ b) / size if size > 1e-6 * one.size else 0.0


def _periodicity(util: Floats) -> float:
    """The largest autocorrelation at a lag from three seconds to a third, after the first that is below 0."""
    n = util.size
    x = util - _avg(util)
    power = abs(np.fft.rfft(x, 2 * n)) ** 2
    acf = np.fft.irfft(power)[: n // 2]
    if acf[0] <= n * 1.0:  # a standard deviation of one percent: nothing moves
        return 0.0
    acf = acf / acf[0] * n / (n - np.arange(acf.size))
    below = np.flatnonzero(acf < 0)
    first = max(int(below[0]), 3) if below.size else acf.size
    return min(max(float(acf[first:].max(initial=0.0)), 0.0), 1.0)
