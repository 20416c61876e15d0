"""How well a pod would run on a node: measured headroom, with the reasons in words.

The stock scheduler has filtered the nodes by requests before. A node is never refused here: a score of 0 says
that others are better, and the scheduler decides.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sinks.scheduling.core.node import Need, Node
from sinks.scheduling.core.terms import cycles, free_cpu, free_memory, heat, network, packing, ranks
from sinks.scheduling.core.terms.term import Term

HIGHEST_EXTENDER_SCORE = 10
"""``MaxExtenderPriority`` of kube-scheduler; it is multiplied by ten and by the extender's weight."""
TERMS: tuple[Callable[[Node, Need], Term | None], ...] = (
    free_memory.term, packing.term, ranks.term, free_cpu.term, network.term, cycles.term, heat.term,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scored:
    """``value`` is 0 to 1: the weighted mean of the terms that could be computed; without any 0.5."""

    node: str
    value: float
    terms: tuple[Term, ...]

    @property
    def extender_score(self) -> int:
        """As an answer to kube-scheduler: a whole number, 0 to 10."""
        return round(self.value * HIGHEST_EXTENDER_SCORE)

    def reasons(self) -> str:
        """What says most first."""
        ordered = sorted(self.terms, key=lambda one: -one.weight * abs(one.value - 0.5))
        return "; ".join(one.reason for one in ordered) or "nothing is known of it"


def score(node: Node, need: Need) -> Scored:
    """The score of one node. A term that says ``blocks`` makes it 0, whatever else is good."""
    found = tuple(one for term in TERMS if (one := term(node, need)) is not None)
    weight = sum(one.weight for one in found)
    value = sum(one.value * one.weight for one in found) / weight if weight else 0.5
    return Scored(node.name, 0.0 if any(one.blocks for one in found) else value, found)


def ranked(nodes: Iterable[Node], need: Need) -> list[Scored]:
    """The best first; among equals by name."""
    return sorted((score(node, need) for node in nodes), key=lambda one: (-one.value, one.node))
