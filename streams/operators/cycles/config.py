"""What a cycle bank watches, and what it answers."""

from dataclasses import dataclass

from contract.records.derived import OtherCycle
from streams.operators.cycles.store import EXACT, Store


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleConfig:
    """A window of the newest ``samples`` on a regular grid of ``interval_ms``, until a tick says otherwise.

    Periods from ``least`` intervals to a third of the window can be found; ``least`` is 3 at least. With
    ``early``, what has only begun is found after two and a half periods.
    """

    interval_ms: int = 1000
    samples: int = 600
    least: int = 3
    early: bool = True
    store: Store = EXACT

    def __post_init__(self) -> None:
        if self.interval_ms <= 0 or self.samples < 64 or self.samples % 4:
            raise ValueError("interval_ms has to be positive, samples a multiple of 4 of at least 64")


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleResult:
    """Whether a series has a cycle now. Without one, all but ``cyclic`` is None.

    ``confidence`` is the chance that the period is right, 0-1; ``since_ms`` the start of the oldest cycle
    of the unbroken run that reaches to now; ``others`` further cycles, None if there is none.
    """

    cyclic: bool
    period_s: float | None = None
    confidence: float | None = None
    since_ms: int | None = None
    others: tuple[OtherCycle, ...] | None = None
