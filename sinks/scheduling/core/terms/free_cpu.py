"""CPU time that is really free, for what waits for its data."""

import numpy as np

from sinks.scheduling.core.node import Need, Nodes
from sinks.scheduling.core.terms.term import TermColumn, clipped

_HUNGRY = {"training": 1.0, "loading": 2.0}
"""Weights by kind; others care little."""


def term(nodes: Nodes, need: Need) -> TermColumn | None:
    """1 from twice the need on, 0 if there is none."""
    cores = need.cpu_cores
    if cores is None or cores <= 0:
        return None
    free = np.maximum(nodes.cpu_free_cores, 0.0)
    enough = max(2 * cores, 1e-3)

    def reason(place: int) -> str:
        return f"needs {cores:.1f} CPUs, {free[place]:.1f} are idle"

    return TermColumn("cpu", clipped(free / enough), _HUNGRY.get(need.kind or "", 0.5), reason)
