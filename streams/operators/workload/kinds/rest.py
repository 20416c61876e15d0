"""Tells whether a pod's GPUs do nothing, by what they draw and hold and not by utilization alone."""

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import CHANNEL_ROW, IDLE_PCT, SPAN_S

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
_LEAST_TICKS = 4
"""Between ticks that are far apart a GPU works unseen: two of them are at rest by chance."""
_COVERED = 0.5
"""Share of the ticks that have to be known: sources miss some."""
_NOTHING, _LEAST_PCT = 0.8, 1.0
"""Share of the ticks in which an unused GPU does less than this: sources tell whole percents, and a screen,
or a small model, is at a few of them all the time."""


def is_unused(values: Floats, tick_s: float) -> bool:
    """Tell whether utilization was next to nothing in the last minute, and in the last four ticks at least,
    nothing at all in most of it, and known from its beginning: after a shorter time nobody can call a GPU
    idle, and little work all the time is some."""
    util = _recent(values, tick_s)[_UTIL]
    if not _is_covered(util, tick_s):
        return False
    known = _known(util)
    return bool(known.max() < IDLE_PCT and (known < _LEAST_PCT).mean() >= _NOTHING)


def is_at_rest(values: Floats, tick_s: float, gpus: int) -> bool:
    """Tell whether in the last minute, and in the last four ticks at least, utilization was next to nothing,
    and memory and power stayed where they were. Where power is not measured, nobody can say. Where only power
    is, the GPUs have to be asleep.

    ``values``: of all channels by second, newest last.
    """
    recent = _recent(values, tick_s)
    if not _is_covered(recent[_POWER], tick_s):
        return False
    watts = _known(recent[_POWER])
    if not _known(recent[_UTIL]).size:
        return bool(watts.max() < _ASLEEP_W * max(gpus, 1))
    if not is_unused(values, tick_s):
        return False
    memory, share = _known(recent[_MEMORY]), _known(recent[_SHARE])
    if memory.size and np.ptp(memory) > _MEMORY_PCT:
        return False
    if share.size and share.mean() >= _WORKS_PCT:
        return False
    return not _moves(watts)


def works_unseen(values: Floats, tick_s: float) -> bool:
    """Tell whether power moved in the last minute, and in the last four ticks at least, where ticks are as
    far apart as a span or further: utilization is that of a moment, and a GPU that works between two of them
    draws more at one than at the other. Where ticks are finer, what moves is a health check or a screen, and
    utilization shows it. False where power is not known."""
    watts = _known(_recent(values, tick_s)[_POWER])
    return bool(round(tick_s) >= SPAN_S and watts.size and _moves(watts))


def _moves(watts: Floats) -> bool:
    return bool(watts.max() > max(_MOVES * watts.min(), watts.min() + 3))


def _recent(values: Floats, tick_s: float) -> Floats:
    return values[:, -max(REST_S, int(_LEAST_TICKS * tick_s)) :]


def _is_covered(row: Floats, tick_s: float) -> bool:
    """Tell whether half of the ticks of these seconds have a value, and one in the first fifth: a tick is of
    whole seconds, and holds for those alone."""
    known = ~np.isnan(row)
    of_ticks = max(int(tick_s), 1) / max(tick_s, 1.0)
    return bool(known.mean() >= _COVERED * of_ticks and known[: row.size // 5].any())


def _known(row: Floats) -> Floats:
    return row[~np.isnan(row)]
