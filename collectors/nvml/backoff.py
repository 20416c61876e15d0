"""When to try again: at growing distances, on a clock that the caller holds."""


class Backoff:
    """Waits ``first_s`` after a failure, twice as long after each further one, ``longest_s`` at most."""

    def __init__(self, first_s: float, longest_s: float) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self.reset()

    def reset(self) -> None:
        """It worked: forget the failures, and be due."""
        self._wait_s = self._first_s
        self._due_s = float("-inf")

    def is_due(self, now_s: float) -> bool:
        """Whether to try now; ``now_s`` is monotonic."""
        return now_s >= self._due_s

    def wait_from(self, now_s: float) -> None:
        """It failed at ``now_s``."""
        self._due_s = now_s + self._wait_s
        self._wait_s = min(2 * self._wait_s, self._longest_s)
