"""Pods of one job together: what they say to one another stays on NVLink, or within the rack."""

import numpy as np

from sinks.scheduling.core.node import Need, Nodes
from sinks.scheduling.core.terms.term import TermColumn, clipped


def term(nodes: Nodes, need: Need) -> TermColumn | None:
    """1 if a rank is there already, half of that if one is near. None for a job of one pod."""
    if need.ranks < 2:
        return None
    others = need.ranks - 1
    near = np.maximum(nodes.near_ranks - nodes.ranks, 0)

    def reason(place: int) -> str:
        return f"{nodes.ranks[place]:.0f} of {others} other ranks here, {near[place]:.0f} near"

    return TermColumn("ranks", clipped((nodes.ranks + 0.5 * near) / others), 2.0, reason)
