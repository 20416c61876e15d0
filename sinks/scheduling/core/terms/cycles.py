"""Two pods on one GPU: they fit if one computes while the other does not.

Of two loads that compute for shares ``a`` and ``b`` of the time, and whose cycles are not in step, ``a * b``
of the time is wanted by both. With one period, one of them is held back until it runs in the other's pauses:
then it is ``a + b - 1``, at least 0.
"""

from sinks.scheduling.core.node import Gpu, Need, Node
from sinks.scheduling.core.terms.term import Term, clipped

_SAME_PERIOD = 0.05


def term(node: Node, need: Need) -> Term | None:
    """1 less the overlap, on the best GPU for it. None if it gets GPUs of its own."""
    if not need.shares or need.duty is None:
        return None
    rated = [_rated(gpu, need.duty, need.period_s) for gpu in node.gpus if gpu.taken and gpu.duty is not None]
    if not rated:
        return None
    value, said = max(rated)
    return Term("cycles", value, 2.0, said)


def _rated(gpu: Gpu, duty: float, period_s: float | None) -> tuple[float, str]:
    there = gpu.duty or 0.0
    in_step = (
        period_s is not None
        and gpu.period_s is not None
        and abs(period_s - gpu.period_s) <= _SAME_PERIOD * max(period_s, gpu.period_s)
    )
    overlap = clipped(there + duty - 1.0) if in_step else clipped(there * duty)
    cycle = f" in cycles of {period_s:.1f} s both" if in_step else ""
    return (
        1.0 - overlap,
        f"computes {duty:.0%} beside one of {there:.0%}{cycle}: {overlap:.0%} is wanted twice",
    )
