"""GPU memory that is really free: a neighbour may use more than it asked for."""

from sinks.scheduling.core.node import Need, Node
from sinks.scheduling.core.terms.term import Term, clipped

_GIB = 1024**3


def term(node: Node, need: Need) -> Term | None:
    """1 from twice the need on; blocks if there is less than the need."""
    wanted = need.gpu_mem_bytes
    free = sorted(
        (
            gpu.mem_free_bytes
            for gpu in node.gpus
            if gpu.mem_free_bytes is not None and (need.shares or not gpu.taken)
        ),
        reverse=True,
    )
    if not need.gpus or wanted is None or len(free) < need.gpus:
        return None
    least = free[need.gpus - 1]  # of the GPUs that it would get, if it gets the freest
    said = f"needs {wanted / _GIB:.1f} GiB of GPU memory, {least / _GIB:.1f} GiB is free"
    return Term("memory", clipped(least / max(wanted, 1.0) - 1.0), 1.0, said, blocks=least < wanted)
