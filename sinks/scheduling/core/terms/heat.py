"""Heat: a GPU near its limit lowers its clocks."""

from sinks.scheduling.core.node import Need, Node
from sinks.scheduling.core.terms.term import Term, clipped

_ENOUGH_C = 20.0


def term(node: Node, need: Need) -> Term | None:
    """0 if one of its GPUs is throttled, else 1 from 20 degrees of headroom on."""
    if not need.gpus:
        return None
    throttled = sum(gpu.throttled is True for gpu in node.gpus)
    if throttled:
        return Term("heat", 0.0, 1.0, f"{throttled} of its GPUs are throttled")
    known = [gpu.headroom_c for gpu in node.gpus if gpu.headroom_c is not None]
    if not known:
        return None
    return Term(
        "heat", clipped(min(known) / _ENOUGH_C), 1.0, f"{min(known):.0f} degrees below where it slows down"
    )
