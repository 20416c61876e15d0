"""One reason for or against a node."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """``value``: 0 (bad) to 1 (good). ``weight``: relative to others. ``blocks``: it cannot run well here."""

    name: str
    value: float
    weight: float
    reason: str
    blocks: bool = False


def clipped(value: float) -> float:
    """``value``, at least 0 and at most 1."""
    return min(max(value, 0.0), 1.0)
