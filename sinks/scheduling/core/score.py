"""Scores how well a pod would run on each node: measured headroom, with the reasons in words.

The stock scheduler has filtered the nodes by requests before. A node is never refused here: a score of 0 says
that others are better, and the scheduler decides.
"""

from dataclasses import dataclass

import numpy as np

from sinks.scheduling.core.node import Flags, Floats, Need, Nodes
from sinks.scheduling.core.terms import TERMS, Term, TermColumn

HIGHEST_EXTENDER_SCORE = 10
"""``MaxExtenderPriority`` of kube-scheduler; it is multiplied by ten and by the extender's weight."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Holds the score of one node: ``value`` and ``terms`` as in ``NodeScores``."""

    node: str
    value: float
    terms: tuple[Term, ...]

    @property
    def extender_score(self) -> int:
        """Return the score as an answer to kube-scheduler: a whole number, 0 to 10."""
        return round(self.value * HIGHEST_EXTENDER_SCORE)

    def reasons(self) -> str:
        """Return what says most first."""
        ordered = sorted(self.terms, key=lambda term: -term.weight * abs(term.value - 0.5))
        return "; ".join(term.reason for term in ordered) or "nothing is known of it"


@dataclass(frozen=True, slots=True)
class NodeScores:
    """Holds the scores of many nodes, in the order of ``nodes``. ``values`` are 0 to 1: the weighted mean of
    the terms that could be computed, without any 0.5; where a term blocks 0."""

    nodes: Nodes
    values: Floats
    terms: tuple[TermColumn, ...]

    def at(self, place: int) -> Scored:
        """Return the score of one node, with its reasons."""
        terms = tuple(term for column in self.terms if (term := column.at(place)) is not None)
        return Scored(self.nodes.names[place], float(self.values[place]), terms)

    def are_blocked(self) -> Flags:
        """Tell whether any term blocks, of each node."""
        blocks = np.zeros(len(self.nodes.names), dtype=np.bool_)
        for column in self.terms:
            if column.blocks is not None:
                blocks |= column.blocks
        return blocks

    def blocked(self) -> dict[str, str]:
        """Return the nodes on which a term blocks, and what it says."""
        names, reasons = self.nodes.names, dict[str, str]()
        for column in self.terms:
            places = column.blocked_places()
            for name, reason in zip(map(names.__getitem__, places), map(column.reason, places), strict=True):
                reasons[name] = f"{reasons[name]}; {reason}" if name in reasons else reason
        return reasons

    def extender_scores(self) -> list[int]:
        """Return the scores as answers to kube-scheduler: whole numbers, 0 to 10."""
        scores: list[int] = np.rint(self.values * HIGHEST_EXTENDER_SCORE).astype(np.int64).tolist()
        return scores

    def best(self, most: int) -> list[Scored]:
        """Return so many of the nodes, the best first; among equals by name."""
        values, names = self.values, self.nodes.names
        least = np.partition(values, -most)[-most] if len(values) > most else -np.inf
        better = np.flatnonzero(values > least).tolist()
        better.sort(key=lambda place: (-values[place], names[place]))
        # thousands may be as good as the last that counts: the first of them by name, without a call for each
        equal = np.flatnonzero(values == least).tolist()
        by_name = dict(zip(map(names.__getitem__, equal), equal, strict=True))
        while len(better) < most and by_name:
            better.append(by_name.pop(min(by_name)))
        return [self.at(place) for place in better]


def score(nodes: Nodes, need: Need) -> NodeScores:
    """Return the score of each node. A term that blocks makes it 0, whatever else is good."""
    terms = tuple(column for term in TERMS if (column := term(nodes, need)) is not None)
    total, weight = np.zeros(len(nodes.names)), np.zeros(len(nodes.names))
    for column in terms:
        known = ~np.isnan(column.values)
        total += np.where(known, column.values, 0.0) * column.weight
        weight += known * column.weight
    values = np.divide(total, weight, out=np.full(len(total), 0.5), where=weight > 0)
    for column in terms:
        if column.blocks is not None:
            values[column.blocks] = 0.0
    return NodeScores(nodes, values, terms)
