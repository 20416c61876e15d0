"""Measures how much event time goes by while records come, by their timestamps in the order of their log.

A wrong timestamp may cost only itself (docs/decisions/0010). So one record moves the clock by at most a
``stride``, however far ahead it is, and what is behind moves nothing. Time in which nothing comes counts as
one stride: a cluster that was switched off for a week has lost nothing on Monday.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class EventClock:
    """Measures time for who asks how long something was silent. ``now_ms`` counts from 0 and never goes back.

    ``high_ms`` is the newest timestamp so far, None before the first; ``behind`` counts the records since the
    last one that was not over a stride behind it.
    """

    now_ms: int = 0
    high_ms: int | None = None
    behind: int = 0

    def advance(self, ts_ms: int, stride_ms: int, *, confirm: int) -> None:
        """Take the time of the next record. After ``confirm`` in a row that are all behind by over a stride
        it was the reference that was wrong; until then the clock stands."""
        if self.high_ms is None:
            self.high_ms = ts_ms
        ahead_ms = ts_ms - self.high_ms
        if ahead_ms >= -stride_ms:
            self.now_ms += min(max(ahead_ms, 0), stride_ms)
            self.high_ms = max(self.high_ms, ts_ms)
            self.behind = 0
            return
        self.behind += 1
        if self.behind >= confirm:
            self.high_ms, self.behind = ts_ms, 0
