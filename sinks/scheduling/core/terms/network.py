"""The network, for jobs of several pods."""

from sinks.scheduling.core.node import Need, Node
from sinks.scheduling.core.terms.term import Term, clipped


def term(node: Node, need: Need) -> Term | None:
    """The share of the network that is idle. None for a job of one pod."""
    if node.net_free is None or need.ranks < 2:
        return None
    return Term(
        "network", clipped(node.net_free), 1.0, f"{clipped(node.net_free):.0%} of the network is idle"
    )
