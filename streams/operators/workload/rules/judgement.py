"""What the rules and the classifier say of a pod at the end of a span."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What is known of a pod at the end of a span. Times in milliseconds."""

    ts_ms: int
    since_ms: int
    kind: str
    confidence: float
    bottleneck: str
    bottleneck_confidence: float
    evidence: dict[str, float] = field(default_factory=dict)
    advice: str | None = None
