"""When ticks are due."""


class Schedule:
    """Ticks at ``start_s``, ``start_s + interval_s``, … of the monotonic clock, however long each takes.

    A tick that would begin when the one after it is due is left out, never made up for.
    """

    def __init__(self, interval_s: float, start_s: float) -> None:
        self._interval_s = interval_s
        self._start_s = start_s
        self._next = 0

    @property
    def due_s(self) -> float:
        """When the next tick is due. A product, not a sum: sums of a float interval would drift."""
        return self._start_s + self._next * self._interval_s

    def begin(self, now_s: float) -> int:
        """A tick begins ``now_s``, when it is due or later; answers how many before it are left out."""
        current = max(self._next, int((now_s - self._start_s) / self._interval_s))
        left_out = current - self._next
        self._next = current + 1
        return left_out
