"""Whole nodes stay free for jobs that need them: the fullest node that fits is the best."""

from sinks.scheduling.core.node import Need, Node
from sinks.scheduling.core.terms.term import Term, clipped


def term(node: Node, need: Need) -> Term | None:
    """1 if no GPU is left free, or if the pod may share one that is taken."""
    if not node.gpus:
        return None
    free = sum(not gpu.taken for gpu in node.gpus)
    if need.shares and free < len(node.gpus):
        return Term("packing", 1.0, 3.0, "shares a GPU that is in use")
    left = max(free - need.gpus, 0)
    said = f"leaves {left} of {len(node.gpus)} GPUs free"
    return Term("packing", clipped(1.0 - left / len(node.gpus)), 3.0, said)
