"""Pods of one job together: what they say to one another stays on NVLink, or within the rack."""

from sinks.scheduling.core.node import Need, Node
from sinks.scheduling.core.terms.term import Term, clipped


def term(node: Node, need: Need) -> Term | None:
    """1 if a rank is there already, half of that if one is near. None for a job of one pod."""
    if need.ranks < 2:
        return None
    others = need.ranks - 1
    value = clipped((node.ranks + 0.5 * max(node.near_ranks - node.ranks, 0)) / others)
    said = f"{node.ranks} of {others} other ranks here, {max(node.near_ranks - node.ranks, 0)} near"
    return Term("ranks", value, 2.0, said)
