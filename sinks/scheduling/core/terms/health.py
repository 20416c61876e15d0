"""Health: a node with a broken GPU is the last to be chosen, or is left out."""

import numpy as np

from sinks.scheduling.core.node import Need, Nodes
from sinks.scheduling.core.terms.term import TermColumn

_ABOVE_ALL = 1000.0
"""So much more than all other terms that its 0 is the node's."""


def term(nodes: Nodes, need: Need) -> TermColumn | None:
    """0 for a node with a GPU that should get no more work; of the others it says nothing."""
    if not need.gpus or need.leaves_out_sick is None:
        return None
    sick = nodes.sick > 0

    def reason(place: int) -> str:
        return f"{nodes.sick[place]:.0f} of its GPUs should get no more work: see kubectl dutycycle health"

    blocks = sick if need.leaves_out_sick else None
    return TermColumn("health", np.where(sick, 0.0, np.nan), _ABOVE_ALL, reason, blocks)
