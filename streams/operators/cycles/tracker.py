"""Decides when a cycle begins, changes and is lost: the state of one series between evaluations."""

import msgspec
from msgspec.structs import replace

from dutycycle.contract.records.derived import CycleMetric
from streams.operators.cycles.locks import DRIFT
from streams.operators.cycles.result import NO_CYCLE, multiple, near, same, sharper

QUIET_MS = 60_000
"""Changes of a cycle that goes on are published no more often than this."""
AGREEING = 2
"""Evaluations in a row that have to say the same before a lock is changed."""
_AGREEING_MULTIPLE = 6
"""The same for a multiple or a fraction of the period: a likely mistake, and a rare change."""
SOON = 10
"""So many periods after its end a cycle has just ended."""
MISSES = 3
"""Evaluations in a row without a cycle after which it is lost."""
PAUSE, LONGER = 0.5, 1.5
"""A cycle that goes on after at most this share of the time for which it had gone on has paused: for a
checkpoint, an evaluation. From then on it is lost after so many times its longest pause."""


class CycleTracker(msgspec.Struct):
    """Turns the results of all evaluations into the few that are published.

    A cycle that was found is *locked*. The lock is released when it is followed no longer (``Locks``), or by
    evaluations without it. What pauses now and then is told on while it pauses, once that is known of it.
    """

    published: CycleMetric | None = None
    published_ms: int = 0
    locked_ms: int = 0
    """Says when the last lock began."""
    ended_ms: int = 0
    """Says when the last lock was released."""
    ended_s: float | None = None
    """Is the period of the last lock that was released."""
    pause_ms: int = 0
    """Is the longest pause of the cycle so far."""
    period_s: float | None = None
    """Is the newest period of the locked cycle; None without a lock."""
    misses: int = 0
    """Counts the evaluations in a row without the locked cycle."""
    agreeing: int = 0
    """Counts how often in a row the same ``challenger`` was found."""
    challenger: CycleMetric | None = None

    def _unlock(self) -> None:
        self.period_s, self.challenger = None, None
        self.misses = self.agreeing = 0

    def release(self, ts_ms: int) -> None:
        """Release the lock: the cycle has ended."""
        self.ended_ms, self.ended_s = ts_ms, self.period_s
        self._unlock()

    def pauses(self, ts_ms: int) -> bool:
        """Tell whether the cycle that was told last is likely to go on."""
        return self.has_told and self.period_s is None and ts_ms - self.ended_ms < LONGER * self.pause_ms

    @property
    def current(self) -> CycleMetric:
        """Return the cycle that is told, with its newest period."""
        if self.published is None or not self.published.cyclic:
            return NO_CYCLE
        return self.published if self.period_s is None else replace(self.published, period_s=self.period_s)

    @property
    def is_in_doubt(self) -> bool:
        """Tell whether the series should be looked at again soon: the last look did not confirm the lock."""
        unsure = self.challenger is not None and self.agreeing < _AGREEING_MULTIPLE
        return self.misses > 0 or unsure or (self.has_told and self.period_s is None)

    @property
    def has_told(self) -> bool:
        """Tell whether a cycle was published last."""
        return self.published is not None and self.published.cyclic

    def update(self, ts_ms: int, result: CycleMetric, most_misses: int = MISSES) -> CycleMetric | None:
        """Take the result of the evaluation at ``ts_ms``; what to publish, or None for no change. After
        ``most_misses`` in a row without the locked cycle it is lost."""
        if self.period_s is None:
            return self._unlocked(ts_ms, result)
        if not result.cyclic or result.period_s is None:
            self.misses += 1
            if self.misses >= most_misses:
                self.release(ts_ms)
                return self._unlocked(ts_ms, NO_CYCLE)
            return None
        self.misses = 0
        if self.published is not None and same(result, self.published):
            self.challenger = None
            self.period_s = result.period_s
            quiet = ts_ms - self.published_ms < QUIET_MS
            if quiet or not sharper(result, self.published, self.published_ms):
                return None
            return self._publish(ts_ms, replace(result, since_ms=self.published.since_ms))
        # Another than was published is so once it is confirmed, and not too soon.
        self._agree(result)
        if self.published is None:
            return None
        if self.agreeing < (_AGREEING_MULTIPLE if multiple(result.period_s, self.period_s) else AGREEING):
            return None
        if not near(result.period_s, self.period_s, DRIFT):
            return self._lock(ts_ms, result)
        if ts_ms - self.published_ms < QUIET_MS:
            return None
        # The same cycle, a little faster or slower: what is known of it stays.
        self.period_s, self.challenger = result.period_s, None
        return self._publish(ts_ms, replace(result, since_ms=self.published.since_ms))

    def began_at(self, since_ms: int) -> CycleMetric:
        """Return what was published last, now with the start of its run."""
        self.published = replace(self.published or NO_CYCLE, since_ms=since_ms)
        return self.published

    def _unlocked(self, ts_ms: int, result: CycleMetric) -> CycleMetric | None:
        pauses = self.pauses(ts_ms)
        if not (result.cyclic and self._is_borne_out(ts_ms, result)):
            return self._publish(ts_ms, NO_CYCLE) if self.has_told and not pauses else None
        pause_ms = ts_ms - self.ended_ms
        again = self.ended_s is not None and near(result.period_s or 0.0, self.ended_s, DRIFT)
        if not again or pause_ms > PAUSE * (self.ended_ms - self.locked_ms):
            self.pause_ms = 0
            return self._lock(ts_ms, result)
        self.pause_ms = max(self.pause_ms, pause_ms)
        if not pauses:
            return self._lock(ts_ms, result)
        # What was there before, and was told on, is no news.
        self.locked_ms, self.period_s = ts_ms, result.period_s
        return None

    def _is_borne_out(self, ts_ms: int, result: CycleMetric) -> bool:
        """Tell whether a cycle that was found without a lock may be locked on. Soon after one has ended,
        twice or three times its period may be that same one, some of whose newest periods are missed: it has
        to be said again. Those differ more than others, and so may the multiple."""
        ended_s = self.ended_s
        if ended_s is None or result.period_s is None or ts_ms - self.ended_ms >= 1000 * SOON * ended_s:
            return True
        if not any(near(result.period_s, times * ended_s, 2 * DRIFT) for times in (2, 3)):
            return True
        self._agree(result)
        return self.agreeing >= AGREEING

    def _agree(self, result: CycleMetric) -> None:
        """Count how often in a row the same is said that is not told."""
        again = self.challenger is not None and same(result, self.challenger)
        self.agreeing = self.agreeing + 1 if again else 1
        self.challenger = result

    def _lock(self, ts_ms: int, result: CycleMetric) -> CycleMetric:
        self._unlock()
        self.locked_ms, self.period_s = ts_ms, result.period_s
        return self._publish(ts_ms, result)

    def _publish(self, ts_ms: int, result: CycleMetric) -> CycleMetric:
        self.published, self.published_ms = result, ts_ms
        return result
