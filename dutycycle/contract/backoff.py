"""Tells how long to wait before the next attempt at something that failed."""

import math
import random

_MOST_DOUBLINGS = 60  # beyond that no wait is under its bound, and 2.0 ** failures would overflow in the end


class Backoff:
    """Waits ``first_s`` after a failure and twice as long after each further one, ``longest_s`` at most.

    Each wait is shortened at random by up to ``spread`` of it, so that many processes do not come back in
    step to a server that was restarted. ``failures`` counts those in a row. All times are seconds.
    """

    def __init__(
        self,
        first_s: float = 0.2,
        longest_s: float = 10.0,
        *,
        spread: float = 0.5,
        chance: random.Random | None = None,
        failures: int = 0,
    ) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._spread = spread
        self._chance = chance or random.Random()  # noqa: S311 - spreads load, guards nothing
        self.failures = failures
        self.due_s = -math.inf
        """When the next attempt is due, on the clock of ``wait_from``."""

    def next_s(self) -> float:
        """Return an attempt failed: how long to wait before the next one."""
        longest_s = min(self._first_s * 2.0 ** min(self.failures, _MOST_DOUBLINGS), self._longest_s)
        self.failures += 1
        return longest_s * self._chance.uniform(1.0 - self._spread, 1.0)

    def wait_from(self, now_s: float) -> None:
        """Note that an attempt failed at ``now_s``: the next one is due after the wait."""
        self.due_s = now_s + self.next_s()

    def is_due(self, now_s: float) -> bool:
        """Tell whether to try now."""
        return now_s >= self.due_s

    def reset(self) -> None:
        """Forget the failures and be due, after an attempt that succeeded."""
        self.failures = 0
        self.due_s = -math.inf
