"""How often and how much we write to the API server. Pure."""

from dataclasses import dataclass

from contract.settings.settings import Settings

_BURST_S = 2.0


@dataclass(frozen=True, slots=True)
class Policy:
    """``interval_s`` lies between two writes to one object, at least; ``most`` objects are known at once."""

    prefix: str = "dutycycle.io"
    interval_s: float = 30.0
    most: int = 20_000

    @classmethod
    def of(cls, settings: Settings) -> "Policy":
        """As the settings say."""
        return cls(settings.annotation_prefix, settings.annotation_interval)


class TokenBucket:
    """So many requests a second; after a pause up to 2 s' worth at once. Turns are given in order."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._free_at = float("-inf")

    def turn(self, now: float) -> float:
        """Seconds to wait, by any one clock, before the request may be sent."""
        self._free_at = max(self._free_at, now - _BURST_S) + 1 / self._rate_per_s
        return max(0.0, self._free_at - now)
