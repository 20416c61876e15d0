"""Whole nodes stay free for jobs that need them: the fullest node that fits is the best."""

import numpy as np

from sinks.scheduling.core.node import Need, Nodes
from sinks.scheduling.core.terms.term import TermColumn, clipped


def term(nodes: Nodes, need: Need) -> TermColumn:
    """1 if no GPU is left free, or if the pod may share one that is taken."""
    taken = nodes.of_gpus("taken")
    free, count = (taken == 0).sum(axis=1), (~np.isnan(taken)).sum(axis=1)
    left = np.maximum(free - need.gpus, 0)
    values = clipped(1.0 - np.where(count > 0, left, np.nan) / np.maximum(count, 1))
    shared = (free < count) & need.shares
    values[shared] = 1.0

    def reason(place: int) -> str:
        if shared[place]:
            return "shares a GPU that is in use"
        return f"leaves {left[place]} of {count[place]} GPUs free"

    return TermColumn("packing", values, 3.0, reason)
