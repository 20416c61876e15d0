"""When a cycle begins, changes and is lost: the state of one series between evaluations."""

from dataclasses import replace
from typing import Any

from streams.operators.cycles.locks import DRIFT
from streams.operators.cycles.result import (
    NO_CYCLE,
    CycleResult,
    multiple,
    near,
    result_from_plain,
    result_to_plain,
    same,
    sharper,
)

QUIET_MS = 60_000
"""Changes of a cycle that goes on are published no more often than this."""
AGREEING = 2
"""Evaluations in a row that have to say the same before a lock is changed."""
AGREEING_MULTIPLE = 6
"""The same for a multiple or a fraction of the period: a likely mistake, and a rare change."""
MISSES = 3
"""Evaluations in a row without a cycle after which it is lost."""


class CycleTracker:
    """Turns the results of all evaluations into the few that are published.

    A cycle that was found is *locked*. The lock is released when it is followed no longer (``Locks``), or by
    ``misses`` evaluations without it.
    """

    def __init__(self, misses: int = MISSES) -> None:
        self._most_misses = misses
        self.published: CycleResult | None = None
        self._published_ms = 0
        self.release()

    def release(self) -> None:
        """The cycle has ended."""
        self.period_s: float | None = None
        """The newest period of the locked cycle; None without a lock."""
        self._misses = self._agreeing = 0
        self._challenger: CycleResult | None = None

    @property
    def current(self) -> CycleResult:
        """The locked cycle, with its newest period."""
        if self.period_s is None or self.published is None:
            return NO_CYCLE
        return replace(self.published, period_s=self.period_s)

    @property
    def is_in_doubt(self) -> bool:
        """Whether a locked series should be looked at again soon: the last look did not confirm the lock."""
        return self._misses > 0 or (self._challenger is not None and self._agreeing < AGREEING_MULTIPLE)

    @property
    def has_told(self) -> bool:
        """Whether a cycle was published last."""
        return self.published is not None and self.published.cyclic

    def update(self, ts_ms: int, result: CycleResult) -> CycleResult | None:
        """Take the result of the evaluation at ``ts_ms``; what to publish, or None for no change."""
        if self.period_s is None:
            return self._unlocked(ts_ms, result)
        if not result.cyclic or result.period_s is None:
            self._misses += 1
            if self._misses >= self._most_misses:
                self.release()
                return self._publish(ts_ms, NO_CYCLE)
            return None
        self._misses = 0
        if self.published is not None and same(result, self.published):
            self._challenger = None
            self.period_s = result.period_s
            quiet = ts_ms - self._published_ms < QUIET_MS
            if quiet or not sharper(result, self.published, self._published_ms):
                return None
            return self._publish(ts_ms, replace(result, since_ms=self.published.since_ms))
        return self._challenge(ts_ms, result)

    def began_at(self, since_ms: int) -> CycleResult:
        """What was published last, now with the start of its run."""
        self.published = replace(self.published or NO_CYCLE, since_ms=since_ms)
        return self.published

    def _unlocked(self, ts_ms: int, result: CycleResult) -> CycleResult | None:
        if result.cyclic:
            return self._lock(ts_ms, result)
        return self._publish(ts_ms, result) if self.has_told else None

    def _challenge(self, ts_ms: int, result: CycleResult) -> CycleResult | None:
        """A result other than what was published is published once it is confirmed, and not too soon."""
        again = self._challenger is not None and same(result, self._challenger)
        self._agreeing = self._agreeing + 1 if again else 1
        self._challenger = result
        if self.published is None or result.period_s is None or self.period_s is None:
            return None
        if self._agreeing < (AGREEING_MULTIPLE if multiple(result.period_s, self.period_s) else AGREEING):
            return None
        if near(result.period_s, self.period_s, DRIFT):
            if ts_ms - self._published_ms < QUIET_MS:
                return None
            # The same cycle, a little faster or slower: what is known of it stays.
            self.period_s, self._challenger = result.period_s, None
            return self._publish(ts_ms, replace(result, since_ms=self.published.since_ms))
        return self._lock(ts_ms, result)

    def _lock(self, ts_ms: int, result: CycleResult) -> CycleResult:
        self.release()
        self.period_s = result.period_s
        return self._publish(ts_ms, result)

    def _publish(self, ts_ms: int, result: CycleResult) -> CycleResult:
        self.published, self._published_ms = result, ts_ms
        return result

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "published": result_to_plain(self.published), "published_ms": self._published_ms,
            "challenger": result_to_plain(self._challenger), "period_s": self.period_s,
            "misses": self._misses, "agreeing": self._agreeing,
        }  # fmt: skip

    @classmethod
    def restore(cls, plain: dict[str, Any], misses: int = MISSES) -> "CycleTracker":
        """The tracker that wrote ``plain``."""
        tracker = cls(misses)
        tracker.published = result_from_plain(plain["published"])
        tracker._challenger = result_from_plain(plain["challenger"])
        tracker._published_ms, tracker.period_s = plain["published_ms"], plain["period_s"]
        tracker._misses, tracker._agreeing = plain["misses"], plain["agreeing"]
        return tracker
