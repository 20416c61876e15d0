"""Tells whether a pod's GPUs do nothing, by what they draw and hold and not by utilization alone."""

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import CHANNEL_ROW, IDLE_PCT

REST_S = 60  # idle is told after a minute without use: docs/decisions/0053
_UTIL, _MEMORY, _POWER, _SHARE = (
    CHANNEL_ROW[name] for name in ("busiest_gpu_util_pct", "gpu_mem_pct", "power_w", "power_pct")
)
_ASLEEP_W = 5.0
"""No GPU computes with less."""
_WORKS_PCT = 35.0
"""Of its limit: so much no GPU draws that does nothing, not even one with a model in its memory."""
_MOVES = 1.15
"""Power that varies by more in a minute is that of work."""
_MEMORY_PCT = 1.0


def is_unused(values: Floats, tick_s: float) -> bool:
    """Tell whether utilization was next to nothing in the last minute, and in the last two ticks at least,
    and known in most of it: after a shorter time nobody can call a GPU idle."""
    seconds = max(REST_S, int(2 * tick_s))
    util = _known(values[_UTIL, -seconds:])
    of_ticks = max(int(tick_s), 1) / max(tick_s, 1.0)  # a tick is of whole seconds
    return bool(util.size >= 0.8 * of_ticks * seconds and util.max() < IDLE_PCT)


def is_at_rest(values: Floats, tick_s: float, gpus: int) -> bool:
    """Tell whether in the last minute, and in the last two ticks at least, utilization was next to nothing,
    and memory and power stayed where they were. Where power is not measured, nobody can say. Where only power
    is, the GPUs have to be asleep.

    ``values``: of all channels by second, newest last.
    """
    recent = values[:, -max(REST_S, int(2 * tick_s)) :]
    util, watts = _known(recent[_UTIL]), _known(recent[_POWER])
    if watts.size < 0.8 * recent.shape[1]:
        return False
    if not util.size:
        return bool(watts.max() < _ASLEEP_W * max(gpus, 1))
    if util.size < 0.8 * recent.shape[1] or util.max() >= IDLE_PCT:
        return False
    memory, share = _known(recent[_MEMORY]), _known(recent[_SHARE])
    if memory.size and np.ptp(memory) > _MEMORY_PCT:
        return False
    if share.size and share.mean() >= _WORKS_PCT:
        return False
    return bool(watts.max() <= max(_MOVES * watts.min(), watts.min() + 3))


def _known(row: Floats) -> Floats:
    return row[~np.isnan(row)]
