"""GPU memory that is really free: a neighbour may use more than it asked for."""

import numpy as np

from sinks.scheduling.core.node import Need, Nodes
from sinks.scheduling.core.terms.term import TermColumn, clipped

_GIB = 1024**3


def term(nodes: Nodes, need: Need) -> TermColumn | None:
    """1 from twice the need on; blocks if there is less than the need."""
    wanted, free = need.gpu_mem_bytes, nodes.of_gpus("mem_free_bytes")
    if not need.gpus or wanted is None or free.shape[1] < need.gpus:
        return None
    if not need.shares:
        free = np.where(nodes.of_gpus("taken") == 0, free, np.nan)
    # of the GPUs that it would get, if it gets the freest; NaN comes last
    least = -np.sort(-free, axis=1)[:, need.gpus - 1]

    def reason(place: int) -> str:
        return f"needs {wanted / _GIB:.1f} GiB of GPU memory, {least[place] / _GIB:.1f} GiB is free"

    return TermColumn("memory", clipped(least / max(wanted, 1.0) - 1.0), 1.0, reason, least < wanted)
