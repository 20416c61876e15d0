"""How trends are learned."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendConfig:
    """``alpha`` and ``beta`` (0-1) are Holt's gains for one ``interval_ms``; they adapt to other gaps.

    ``fading`` (0-1) is the weight of the newest one-step error in its variance. A slope is followed for
    about ``damp_s`` into the future. A series unseen for more than ``reset_ms`` begins anew.
    ``horizons_s`` are how far ahead forecasts reach, ascending.
    """

    interval_ms: int = 1000
    alpha: float = 0.3
    beta: float = 0.05
    fading: float = 0.05
    damp_s: float = 30.0
    reset_ms: int = 120_000
    horizons_s: tuple[float, ...] = (10.0, 30.0, 300.0)

    def __post_init__(self) -> None:
        for name in ("alpha", "beta", "fading"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: a gain lies between 0 and 1")
        if self.interval_ms <= 0 or self.reset_ms < self.interval_ms:
            raise ValueError("interval_ms has to be positive, and reset_ms no shorter than it")
