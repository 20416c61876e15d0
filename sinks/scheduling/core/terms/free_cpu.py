"""CPU time that is really free, for what waits for its data."""

from sinks.scheduling.core.node import Need, Node
from sinks.scheduling.core.terms.term import Term, clipped

_HUNGRY = {"training": 1.0, "loading": 2.0}
"""Weights by kind; others care little."""


def term(node: Node, need: Need) -> Term | None:
    """1 from twice the need on, 0 if there is none."""
    if node.cpu_free_cores is None or need.cpu_cores is None or need.cpu_cores <= 0:
        return None
    free = max(node.cpu_free_cores, 0.0)
    said = f"needs {need.cpu_cores:.1f} CPUs, {free:.1f} are idle"
    return Term("cpu", clipped(free / need.cpu_cores / 2), _HUNGRY.get(need.kind or "", 0.5), said)
