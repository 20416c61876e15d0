"""What a pod's last minutes look like, as numbers: what its kind is judged by.

``features`` takes decoded channels (``streams.operators.insight_codes``), newest second last. "Recent" is
the last minute, "all" up to four. A figure that cannot be known is the one of a quiet pod, and flagged.
"""

import numpy as np
import numpy.typing as npt

from streams.operators.bank_state import Bools, Floats
from streams.operators.insight_codes import ROWS

RECENT_S = 60
BUSY_PCT = 8.0
LEAST_S = 15
"""With fewer seconds of utilization there is nothing to judge."""

NAMES = (
    "util_recent", "util_all", "util_std", "busy_share", "full_share", "busy_level", "busy_noise",
    "copy_ratio", "ups_per_min", "dips_per_min", "run_spread", "rest_longest", "rest_now", "smoothness",
    "rhythm", "period_found",
    "mem_level", "mem_rise_recent", "mem_rise_all", "mem_moves", "host_mem_rise",
    "cpu_recent", "cpu_busy_share", "cpu_spread", "cpu_follows", "cpu_rest_level",
    "rx_follows", "tx_follows", "rx_recent", "tx_recent", "rx_spread", "read_recent", "read_all",
    "write_recent", "write_most", "write_share", "power_busy", "minutes", "no_cgroup", "no_network",
)  # fmt: skip
"""In the order of the vector."""


def features(values: Floats, period_confidence: float) -> Floats | None:
    """The vector, shape (len(NAMES),); None with less than ``LEAST_S`` seconds of utilization.

    ``values``: shape (channels, seconds). ``period_confidence``: of the rhythm that the node found, 0 for
    none.
    """
    known = ~np.isnan(values[ROWS["gpu_util_pct"]])
    if np.count_nonzero(known) < LEAST_S:
        return None
    # Seconds before the first that was measured do not belong to the pod.
    rows = values[:, int(np.argmax(known)) :]
    util = _filled(rows[ROWS["gpu_util_pct"]])
    found = {
        **_utilization(util, _row(rows, "mem_copy_util_pct"), period_confidence),
        **_memory(rows), **_cpu(rows, util), **_traffic(rows, util),
        "power_busy": _mean(_row(rows, "power_pct")[util >= BUSY_PCT]) / 100,
        "minutes": min(util.size / 240, 1.0),
    }  # fmt: skip
    return np.array([found[name] for name in NAMES])


def _utilization(util: Floats, copy: Floats, period_confidence: float) -> dict[str, float]:
    busy = util >= BUSY_PCT
    level = float(np.median(util[busy])) if busy.any() else 0.0
    high = util >= 0.6 * max(level, BUSY_PCT)
    ups = np.flatnonzero(busy[1:] & ~busy[:-1]) + 1
    dips = np.count_nonzero(high[:-1] & ~high[1:])
    minutes = util.size / 60
    spans = np.diff(ups)
    rests = _runs(~busy)
    used = util[high & busy]
    return {
        "util_recent": float(util[-RECENT_S:].mean()) / 100,
        "util_all": float(util.mean()) / 100,
        "util_std": float(util.std()) / 50,
        "busy_share": float(busy.mean()),
        "full_share": float((util >= 90).mean()),
        "busy_level": level / 100,
        "busy_noise": float(np.mean(abs(np.diff(used)))) / 20 if used.size > 1 else 0.0,
        "copy_ratio": min(_mean(copy[busy]) / level, 1.0) if busy.any() else 0.0,
        "ups_per_min": min(ups.size / minutes, 20.0) / 10,
        "dips_per_min": min(dips / minutes, 20.0) / 10,
        "run_spread": min(float(spans.std() / spans.mean()), 2.0) if spans.size > 2 else 1.0,
        "rest_longest": float(np.log2(1 + max(rests, default=0))) / 8,
        "rest_now": float(np.log2(1 + (rests[-1] if not busy[-1] and rests else 0))) / 8,
        "smoothness": _follows(util[1:], util[:-1]),
        "rhythm": _rhythm(util),
        "period_found": period_confidence,
    }


def _memory(rows: Floats) -> dict[str, float]:
    memory, host = _filled(_row(rows, "gpu_mem_pct")), _filled(_row(rows, "mem_mb"))
    recent = memory[-RECENT_S:]
    steps = abs(np.diff(memory))
    return {
        "mem_level": float(memory[-1]) / 100,
        "mem_rise_recent": float(recent[-5:].mean() - recent[:5].mean()) / 50,
        "mem_rise_all": float(memory[-5:].mean() - memory[:5].mean()) / 50,
        "mem_moves": min(np.count_nonzero(steps >= 1) / max(steps.size, 1) * 10, 2.0),
        "host_mem_rise": float(np.clip(np.log2((1 + host[-1]) / (1 + host[-RECENT_S:][0])), -1, 2)),
    }


def _cpu(rows: Floats, util: Floats) -> dict[str, float]:
    raw = _row(rows, "cpu_pct")
    cpu = _filled(raw)
    logs = np.log2(1 + cpu)
    resting = cpu[util < BUSY_PCT]
    return {
        "cpu_recent": float(logs[-RECENT_S:].mean()) / 10,
        "cpu_busy_share": float((cpu >= 20).mean()),
        "cpu_spread": float(logs.std()) / 3,
        "cpu_follows": _follows(util, logs),
        "cpu_rest_level": float(np.log2(1 + np.median(resting))) / 10 if resting.size else 0.5,
        "no_cgroup": float(np.isnan(raw).mean()),
    }


def _traffic(rows: Floats, util: Floats) -> dict[str, float]:
    raw = _row(rows, "rx_kb_per_s")
    rx, tx, read, write = (
        np.log2(1 + _filled(_row(rows, f"{name}_kb_per_s"))) for name in ("rx", "tx", "read", "write")
    )
    return {
        "rx_follows": _follows(util, rx),
        "tx_follows": _follows(util, tx),
        "rx_recent": float(rx[-RECENT_S:].mean()) / 20,
        "tx_recent": float(tx[-RECENT_S:].mean()) / 20,
        "rx_spread": float(rx.std()) / 5,
        "read_recent": float(read[-RECENT_S:].mean()) / 20,
        "read_all": float(read.mean()) / 20,
        "write_recent": float(write[-RECENT_S:].mean()) / 20,
        "write_most": float(write.max()) / 20,
        "write_share": float((write >= 5).mean()),
        "no_network": float(np.isnan(raw).mean()),
    }


def _row(rows: Floats, name: str) -> Floats:
    return np.asarray(rows[ROWS[name]])


def _filled(values: Floats) -> Floats:
    """Gaps filled with the value before them; 0 before the first."""
    known = ~np.isnan(values)
    if known.all():
        return values
    last: npt.NDArray[np.int64] = np.maximum.accumulate(np.where(known, np.arange(values.size), -1))
    return np.where(last >= 0, values[np.maximum(last, 0)], 0.0)


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else 0.0


def _runs(what: Bools) -> list[int]:
    """Lengths of the runs in which ``what`` holds."""
    edges = np.flatnonzero(np.diff(np.concatenate(([False], what, [False])).astype(np.int8)))
    return [int(length) for length in edges[1::2] - edges[::2]]


def _follows(one: Floats, other: Floats) -> float:
    """Pearson's correlation; 0 where one of the two does not move."""
    a, b = one - one.mean(), other - other.mean()
    size = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / size if size > 1e-6 * one.size else 0.0


def _rhythm(util: Floats) -> float:
    """The largest autocorrelation at a lag from three seconds to a third, after the first that is below 0."""
    n = util.size
    x = util - util.mean()
    power = abs(np.fft.rfft(x, 2 * n)) ** 2
    acf = np.fft.irfft(power)[: n // 2]
    if acf[0] <= n * 1.0:  # a standard deviation of one percent: nothing moves
        return 0.0
    acf = acf / acf[0] * n / (n - np.arange(acf.size))
    below = np.flatnonzero(acf < 0)
    first = max(int(below[0]), 3) if below.size else acf.size
    return float(np.clip(acf[first:].max(initial=0.0), 0, 1))
