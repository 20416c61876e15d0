"""The network, for jobs of several pods."""

from sinks.scheduling.core.node import Need, Nodes
from sinks.scheduling.core.terms.term import TermColumn, clipped


def term(nodes: Nodes, need: Need) -> TermColumn | None:
    """The share of the network that is idle. None for a job of one pod."""
    if need.ranks < 2:
        return None
    idle = clipped(nodes.net_free)
    return TermColumn("network", idle, 1.0, lambda place: f"{idle[place]:.0%} of the network is idle")
