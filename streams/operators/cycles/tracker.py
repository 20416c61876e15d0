"""When a cycle counts as begun, changed and lost: the state of one series between evaluations."""

from dataclasses import replace
from typing import Any

from river.drift import PageHinkley

from contract.records.derived import OtherCycle
from streams.operators.cycles.config import CycleResult

CHANGED = 0.02
"""Share by which a period has to move to be told again."""
SHARPER, MANY = 0.005, 6.0
"""The same for what was told from fewer than so many periods: these cannot tell it exactly."""
DRIFT = 0.05
"""Up to this share it is the same cycle, a little faster or slower."""
QUIET_MS = 60_000
"""Changes of a cycle that goes on are told no more often than this."""
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
"""Gain at which a cycle is no longer doubted."""
SETTLING, SETTLED = 6, 24
"""A lock is young until its gain was taken so many times, and settled from so many on."""


class CycleTracker:
    """Turns the answers of every evaluation into the few that are news.

    The lock on a cycle is released by River's Page-Hinkley test (E. S. Page 1954) on the gain of its
    newest periods. The test's state is kept as the gains that it was fed, and rebuilt from them.
    """

    def __init__(self, misses: int = MISSES) -> None:
        self._most_misses = misses
        self.told: CycleResult | None = None
        self._told_ms = 0
        self._forget()

    def _forget(self) -> None:
        self.period_s: float | None = None
        self._followed_ms = self._age = self._misses = self._agreeing = 0
        self._rival: CycleResult | None = None
        self._gains: list[float] = []
        self._drift = _detector([])
        self._doubted = False
        self._noise: float | None = None

    def follows(self, ts_ms: int) -> bool:
        """Whether a locked cycle's newest periods should be looked at now: four times in a period."""
        return self.period_s is not None and ts_ms - self._followed_ms >= self.period_s * 1000 / 4

    @property
    def curious(self) -> bool:
        """Whether a locked cycle should be looked for again: it is young, or was another the last time."""
        undecided = self._rival is not None and self._agreeing < AGREEING_MULTIPLE
        return self._age < SETTLING or self._misses > 0 or undecided

    @property
    def settled(self) -> bool:
        """Whether a cycle has been followed for long."""
        return self._age >= SETTLED

    @property
    def current(self) -> CycleResult:
        """The cycle that is locked on, with its newest period."""
        if self.period_s is None or self.told is None:
            return CycleResult(cyclic=False)
        return replace(self.told, period_s=self.period_s)

    def broken(self, ts_ms: int, gain: float, noise: float) -> bool:
        """Take the gain (and its standard error) of the newest periods of the cycle that is locked on.

        True if it has ended: the lock is released then.
        """
        self._age += 1
        self._followed_ms = ts_ms
        self._gains.append(gain)
        if len(self._gains) > REMEMBERED:
            self._gains = self._gains[-REMEMBERED // 2 :]
            self._drift = _detector(self._gains)
        else:
            self._drift.update(gain)
        # The detector starts over once it has fired; the doubt stays until the cycle is back.
        self._doubted = gain < BACK and (self._doubted or bool(self._drift.drift_detected))
        # At an end the noise is that of the end, not of the cycle: what it was before counts.
        if self._noise is None or gain >= BACK:
            self._noise = noise
        ended = self._doubted and gain < HALF and 1 - gain > SIGMAS * self._noise
        if ended:
            self._forget()
        return ended

    def take(self, ts_ms: int, result: CycleResult) -> CycleResult | None:
        """Take the answer of the evaluation at ``ts_ms``; what to tell, or None if it is no news."""
        if self.period_s is None:
            return self._unlocked(ts_ms, result)
        if not result.cyclic or result.period_s is None:
            self._misses += 1
            if self._misses >= self._most_misses:
                self._forget()
                return self._tell(ts_ms, CycleResult(cyclic=False))
            return None
        self._misses = 0
        if self.told is not None and same(result, self.told):
            self._rival = None
            self.period_s = result.period_s
            if ts_ms - self._told_ms < QUIET_MS or not sharper(result, self.told, self._told_ms):
                return None
            return self._tell(ts_ms, replace(result, since_ms=self.told.since_ms))
        return self._challenge(ts_ms, result)

    def date(self, since_ms: int) -> CycleResult:
        """What was told last, with when it began."""
        self.told = replace(self.told or CycleResult(cyclic=False), since_ms=since_ms)
        return self.told

    def _unlocked(self, ts_ms: int, result: CycleResult) -> CycleResult | None:
        if result.cyclic:
            return self._lock(ts_ms, result)
        ended = self.told is not None and self.told.cyclic
        return self._tell(ts_ms, result) if ended else None

    def _challenge(self, ts_ms: int, result: CycleResult) -> CycleResult | None:
        """An answer other than what was told is told once it is confirmed, and not too soon."""
        self._agreeing = self._agreeing + 1 if self._rival is not None and same(result, self._rival) else 1
        self._rival = result
        if self.told is None or result.period_s is None or self.period_s is None:
            return None
        if self._agreeing < (AGREEING_MULTIPLE if multiple(result.period_s, self.period_s) else AGREEING):
            return None
        if near(result.period_s, self.period_s, DRIFT):
            if ts_ms - self._told_ms < QUIET_MS:
                return None
            # The same cycle, a little faster or slower: what is known of it stays.
            self.period_s, self._rival = result.period_s, None
            return self._tell(ts_ms, replace(result, since_ms=self.told.since_ms))
        return self._lock(ts_ms, result)

    def _lock(self, ts_ms: int, result: CycleResult) -> CycleResult:
        self._forget()
        self.period_s = result.period_s
        return self._tell(ts_ms, result)

    def _tell(self, ts_ms: int, result: CycleResult) -> CycleResult:
        self.told, self._told_ms = result, ts_ms
        return result

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "told": result_to_plain(self.told), "told_ms": self._told_ms,
            "rival": result_to_plain(self._rival), "period_s": self.period_s,
            "followed_ms": self._followed_ms, "age": self._age,
            "misses": self._misses, "agreeing": self._agreeing, "doubted": self._doubted,
            "noise": self._noise, "gains": list(self._gains),
        }  # fmt: skip

    @classmethod
    def restore(cls, plain: dict[str, Any], misses: int = MISSES) -> "CycleTracker":
        """The tracker that wrote the snapshot."""
        tracker = cls(misses)
        tracker.told, tracker._rival = result_from_plain(plain["told"]), result_from_plain(plain["rival"])
        tracker._told_ms, tracker.period_s, tracker._age = plain["told_ms"], plain["period_s"], plain["age"]
        tracker._followed_ms = plain["followed_ms"]
        tracker._misses, tracker._agreeing = plain["misses"], plain["agreeing"]
        tracker._doubted, tracker._noise = plain["doubted"], plain["noise"]
        tracker._gains = list(plain["gains"])
        tracker._drift = _detector(tracker._gains)
        return tracker


def _detector(gains: list[float]) -> Any:
    """Fires when the gains fall together by half below their mean."""
    drift: Any = PageHinkley(min_instances=2, delta=0.1, threshold=0.5, mode="down")
    for gain in gains:
        drift.update(gain)
    return drift


def near(one_s: float, other_s: float, share: float = CHANGED) -> bool:
    return abs(one_s - other_s) <= share * other_s


def multiple(one_s: float, other_s: float) -> bool:
    """Whether one is about a small whole multiple of the other."""
    ratio = max(one_s, other_s) / min(one_s, other_s)
    return round(ratio) in range(2, 7) and near(ratio, round(ratio), 2 * CHANGED)


def same(one: CycleResult, other: CycleResult) -> bool:
    """Whether both tell the same periods."""
    if one.period_s is None or other.period_s is None:
        return one.cyclic == other.cyclic
    ours, theirs = one.others or (), other.others or ()
    return (
        near(one.period_s, other.period_s)
        and len(ours) == len(theirs)
        and all(near(a.period_s, b.period_s) for a, b in zip(ours, theirs, strict=True))
    )


def sharper(one: CycleResult, told: CycleResult, told_ms: int) -> bool:
    """Whether the period of ``told`` was from few periods, and is better known by now."""
    if one.period_s is None or told.period_s is None or told.since_ms is None:
        return False
    few = told_ms - told.since_ms < MANY * told.period_s * 1000
    return few and not near(one.period_s, told.period_s, SHARPER)


def result_to_plain(result: CycleResult | None) -> dict[str, Any] | None:
    if result is None:
        return None
    others = result.others and [[other.period_s, other.confidence] for other in result.others]
    return {
        "cyclic": result.cyclic, "period_s": result.period_s, "confidence": result.confidence,
        "since_ms": result.since_ms, "others": others,
    }  # fmt: skip


def result_from_plain(plain: dict[str, Any] | None) -> CycleResult | None:
    if plain is None:
        return None
    others = plain["others"]
    pairs = others and tuple(OtherCycle(period_s=p, confidence=c) for p, c in others)
    return CycleResult(**{**plain, "others": pairs})
