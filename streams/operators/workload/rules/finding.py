"""Holds what a rule finds, and how sure it is."""

from dataclasses import dataclass, field

NO_BOTTLENECK, UNKNOWN_BOTTLENECK = "none", "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """Holds a bottleneck, how sure that is (0-1), and the evidence that belongs to it alone."""

    bottleneck: str
    confidence: float
    evidence: dict[str, float] = field(default_factory=dict)


def ramp(value: float, low: float, high: float) -> float:
    """Return 0 below ``low``, 1 above ``high``, straight in between."""
    return min(max((value - low) / (high - low), 0.0), 1.0)


def confidence(*parts: float) -> float:
    """Return how sure a rule is: as sure as the weakest of what has to hold: 0 if one does not at all, else
    0.5 to 0.98."""
    weakest = min(parts)
    return 0.0 if weakest <= 0 else 0.5 + 0.48 * weakest
