"""Heat: a GPU near its limit lowers its clocks."""

import numpy as np

from sinks.scheduling.core.node import Need, Nodes
from sinks.scheduling.core.terms.term import TermColumn, clipped

_ENOUGH_C = 20.0


def term(nodes: Nodes, need: Need) -> TermColumn | None:
    """0 if one of its GPUs is throttled, else 1 from 20 degrees of headroom on."""
    if not need.gpus:
        return None
    throttled = (nodes.of_gpus("throttled") == 1).sum(axis=1)
    headroom = np.fmin.reduce(nodes.of_gpus("headroom_c"), axis=1, initial=np.nan)

    def reason(place: int) -> str:
        if throttled[place]:
            return f"{throttled[place]} of its GPUs are throttled"
        return f"{headroom[place]:.0f} degrees below where it slows down"

    return TermColumn("heat", np.where(throttled > 0, 0.0, clipped(headroom / _ENOUGH_C)), 1.0, reason)
