"""One reason for or against nodes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sinks.scheduling.core.node import Flags, Floats


@dataclass(frozen=True, slots=True)
class Term:
    """``value``: 0 (bad) to 1 (good). ``weight``: relative to others. ``blocks``: it cannot run well here."""

    name: str
    value: float
    weight: float
    reason: str
    blocks: bool = False


@dataclass(frozen=True, slots=True)
class TermColumn:
    """A term of many nodes: ``values`` are NaN where nothing is known.

    ``reason`` says it of one place: of a thousand nodes few are ever asked for.
    """

    name: str
    values: Floats
    weight: float
    reason: Callable[[int], str]
    blocks: Flags | None = None

    def blocked_places(self) -> list[int]:
        """Where it blocks."""
        return [] if self.blocks is None else np.flatnonzero(self.blocks).tolist()

    def at(self, place: int) -> Term | None:
        """That of one node; None where nothing is known of it."""
        value = float(self.values[place])
        if np.isnan(value):
            return None
        blocks = self.blocks is not None and bool(self.blocks[place])
        return Term(self.name, value, self.weight, self.reason(place), blocks)


def clipped(values: Floats) -> Floats:
    """``values``, at least 0 and at most 1; NaN stays."""
    return np.minimum(np.maximum(values, 0.0), 1.0)
