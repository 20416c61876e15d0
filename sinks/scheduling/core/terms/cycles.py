"""Two pods on one GPU: they fit if one computes while the other does not.

Of two loads that compute for shares ``a`` and ``b`` of the time, and whose cycles are not in step, ``a * b``
of the time is wanted by both. With one period, one of them is held back until it runs in the other's pauses:
then it is ``a + b - 1``, at least 0.
"""

import numpy as np

from sinks.scheduling.core.node import Flags, Floats, Need, Nodes
from sinks.scheduling.core.terms.term import TermColumn, clipped

_SAME_PERIOD = 0.05


def term(nodes: Nodes, need: Need) -> TermColumn | None:
    """1 less the overlap, on the best GPU for it. None if it gets GPUs of its own."""
    duty, there = need.duty, nodes.of_gpus("duty")
    if not need.shares or duty is None or not there.shape[1]:
        return None
    in_step = _in_step(nodes.of_gpus("period_s"), need.period_s)
    overlap = clipped(np.where(in_step, there + duty - 1.0, there * duty))
    overlap = np.where((nodes.of_gpus("taken") == 1) & ~np.isnan(there), overlap, np.inf)
    best = overlap.argmin(axis=1)
    least = np.take_along_axis(overlap, best[:, None], axis=1)[:, 0]

    def reason(place: int) -> str:
        at = place, best[place]
        cycle = f" in cycles of {need.period_s:.1f} s both" if in_step[at] else ""
        return f"computes {duty:.0%} beside one of {there[at]:.0%}{cycle}: {overlap[at]:.0%} is wanted twice"

    return TermColumn("cycles", 1.0 - np.where(np.isinf(least), np.nan, least), 2.0, reason)


def _in_step(periods: Floats, period_s: float | None) -> Flags:
    if period_s is None:
        return np.zeros(periods.shape, dtype=np.bool_)
    return np.abs(periods - period_s) <= _SAME_PERIOD * np.maximum(periods, period_s)
