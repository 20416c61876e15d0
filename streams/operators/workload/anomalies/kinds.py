"""Names what is said of an anomaly."""

from dataclasses import dataclass, field

SLOW_STEPS, HOT_GPU, SLOW_GPU, POWER, HANG = "slow_steps", "hot_gpu", "slow_gpu", "power", "hang"
STALL, FROZEN = "stall", "frozen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Describes one anomaly that holds now, since ``since_ms``. ``evidence``: figures, units at the end of
    the names. ``gpu``: the GPU that it is about, where that is one."""

    kind: str
    since_ms: int
    evidence: dict[str, float] = field(default_factory=dict)
    gpu: str | None = None

    @property
    def name(self) -> tuple[str, str, int]:
        """Return which one it is, whatever its figures are now."""
        return self.kind, self.gpu or "", self.since_ms
