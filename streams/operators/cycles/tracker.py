"""When a cycle begins, changes and is lost: the state of one series between evaluations."""

from dataclasses import replace
from typing import Any

from streams.operators.cycles.page_hinkley import PageHinkley
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

DRIFT = 0.05
"""Up to this share it is the same cycle, a little faster or slower."""
QUIET_MS = 60_000
"""Changes of a cycle that goes on are published no more often than this."""
AGREEING = 2
"""Evaluations in a row that have to say the same before a lock is changed."""
AGREEING_MULTIPLE = 6
"""The same for a multiple or a fraction of the period: a likely mistake, and a rare change."""
MISSES = 3
"""Evaluations in a row without a cycle after which it is lost."""
REMEMBERED = 30
"""Gains that the drift detector is rebuilt from."""
HALF, SIGMAS = 0.5, 3.0
"""A cycle is gone if its gain is below half, and so far below 1 that its noise does not explain it."""
BACK = 0.75
"""Gain from which on a cycle is not suspected to have ended."""
YOUNG, SETTLED = 6, 24
"""A lock is young until its gain was measured so many times, and settled from so many on."""


class CycleTracker:
    """Turns the results of all evaluations into the few that are published.

    A cycle that was found is *locked*. The lock is released by River's Page-Hinkley test (E. S. Page 1954)
    on the gain of the newest periods (``detect.follow``), or by ``misses`` evaluations without it.
    """

    def __init__(self, misses: int = MISSES) -> None:
        self._most_misses = misses
        self.published: CycleResult | None = None
        self._published_ms = 0
        self._forget()

    def _forget(self) -> None:
        self.period_s: float | None = None
        """The newest period of the locked cycle; None without a lock."""
        self._followed_ms = self._age = self._misses = self._agreeing = 0
        self._challenger: CycleResult | None = None
        self._gains: list[float] = []
        self._drift = _detector([])
        self._suspected = False
        self._noise: float | None = None

    @property
    def current(self) -> CycleResult:
        """The locked cycle, with its newest period."""
        if self.period_s is None or self.published is None:
            return NO_CYCLE
        return replace(self.published, period_s=self.period_s)

    @property
    def is_settled(self) -> bool:
        """Whether the lock is old."""
        return self._age >= SETTLED

    @property
    def wants_evaluation(self) -> bool:
        """Whether a locked series should be evaluated soon: the lock is young, or the last evaluation did
        not confirm it."""
        undecided = self._challenger is not None and self._agreeing < AGREEING_MULTIPLE
        return self._age < YOUNG or self._misses > 0 or undecided

    def wants_gain(self, ts_ms: int) -> bool:
        """Whether the gain of the newest periods should be measured at ``ts_ms``: four times in a period."""
        return self.period_s is not None and ts_ms - self._followed_ms >= self.period_s * 1000 / 4

    def follow(self, ts_ms: int, gain: float, noise: float) -> bool:
        """Take the ``gain`` of the newest periods of the locked cycle and its standard error ``noise``.

        True if the cycle has ended, and the lock was released.
        """
        self._age += 1
        self._followed_ms = ts_ms
        self._gains.append(gain)
        if len(self._gains) > REMEMBERED:
            self._gains = self._gains[-REMEMBERED // 2 :]
            self._drift = _detector(self._gains)
        else:
            self._drift.update(gain)
        # The test starts over once it has fired; the suspicion stays until the cycle is back.
        self._suspected = gain < BACK and (self._suspected or bool(self._drift.drift_detected))
        # At an end the noise is that of the end, not of the cycle: what it was before counts.
        if self._noise is None or gain >= BACK:
            self._noise = noise
        ended = self._suspected and gain < HALF and 1 - gain > SIGMAS * self._noise
        if ended:
            self._forget()
        return ended

    def update(self, ts_ms: int, result: CycleResult) -> CycleResult | None:
        """Take the result of the evaluation at ``ts_ms``; what to publish, or None for no change."""
        if self.period_s is None:
            return self._unlocked(ts_ms, result)
        if not result.cyclic or result.period_s is None:
            self._misses += 1
            if self._misses >= self._most_misses:
                self._forget()
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
        ended = self.published is not None and self.published.cyclic
        return self._publish(ts_ms, result) if ended else None

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
        self._forget()
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
            "followed_ms": self._followed_ms, "age": self._age,
            "misses": self._misses, "agreeing": self._agreeing, "suspected": self._suspected,
            "noise": self._noise, "gains": list(self._gains),
        }  # fmt: skip

    @classmethod
    def restore(cls, plain: dict[str, Any], misses: int = MISSES) -> "CycleTracker":
        """The tracker that wrote ``plain``."""
        tracker = cls(misses)
        tracker.published = result_from_plain(plain["published"])
        tracker._challenger = result_from_plain(plain["challenger"])
        tracker._published_ms, tracker.period_s = plain["published_ms"], plain["period_s"]
        tracker._followed_ms, tracker._age = plain["followed_ms"], plain["age"]
        tracker._misses, tracker._agreeing = plain["misses"], plain["agreeing"]
        tracker._suspected, tracker._noise = plain["suspected"], plain["noise"]
        tracker._gains = list(plain["gains"])
        tracker._drift = _detector(tracker._gains)
        return tracker


def _detector(gains: list[float]) -> Any:
    """Fires when the gains fall together by half below their mean. It is rebuilt from the gains that it was
    fed, as River's tests have no plain state."""
    drift: Any = PageHinkley(min_instances=2, delta=0.1, threshold=0.5, mode="down")
    for gain in gains:
        drift.update(gain)
    return drift
