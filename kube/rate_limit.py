"""How many requests a second the API server gets from us. Pure."""

_BURST_S = 2.0


class TokenBucket:
    """So many requests a second; after a pause up to 2 s' worth at once. Turns are given in order."""

    def __init__(self, rate_per_s: float) -> None:
        self._rate_per_s = rate_per_s
        self._free_at = float("-inf")

    def turn(self, now: float) -> float:
        """Seconds to wait, by any one clock, before the request may be sent."""
        self._free_at = max(self._free_at, now - _BURST_S) + 1 / self._rate_per_s
        return max(0.0, self._free_at - now)
