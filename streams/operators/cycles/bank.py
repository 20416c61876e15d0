"""The cycles of many series on one time scale: samples in, and every few seconds what has a period."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from contract.records.derived import OtherCycle
from streams.operators.columns.arrays import Floats, Ints, check_version, remap
from streams.operators.cycles.detect.window import Detection, find_cycles, follow_cycle
from streams.operators.cycles.result import NO_CYCLE, CycleResult
from streams.operators.cycles.ring import EXACT, Ring, Store
from streams.operators.cycles.schedule import EvaluationBackoff
from streams.operators.cycles.tracker import CycleTracker

SNAPSHOT_VERSION = 1
EVERY_WHOLE, RARELY = 6, 12
"""Turns of which one is of whole windows; and of series that go on as they did."""
PARTS = ((EVERY_WHOLE, 1), (3, 2), (1, 4))
"""(n, part): in each n-th turn the newest samples, a whole window over ``part``; the first one counts."""
RECENT = 10
"""Newest samples that are compared with what is usual."""
SURE, SURE_OF_PART, SURE_OF_BEGUN = 0.9, 0.97, 0.95
"""Confidence that a lock needs, in a whole window, in a part of one, and in what has only begun: a series
is evaluated thousands of times, so that even unlikely mistakes would happen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleConfig:
    """A window of the newest ``samples`` on a grid of ``interval_ms``, until a tick says otherwise.

    Periods from ``least`` intervals (3 or more) to a third of the window can be found; with ``early``, those
    that have begun are found after two and a half periods. ``store`` is how samples are kept.
    """

    interval_ms: int = 1000
    samples: int = 600
    least: int = 3
    early: bool = True
    store: Store = EXACT

    def __post_init__(self) -> None:
        if self.interval_ms <= 0 or self.samples < 64 or self.samples % 4:
            raise ValueError("interval_ms has to be positive, samples a multiple of 4 of at least 64")


TICKS = CycleConfig()
"""The newest ten minutes of ticks of a second."""


class LockedCycle(NamedTuple):
    """A cycle that goes on, and the ``samples`` since it began, ``interval_ms`` apart, oldest first."""

    column: int
    period_s: float
    samples: Floats
    interval_ms: int


class CycleBank:
    """The windows of n series, and the cycles that were found in them."""

    def __init__(self, n: int = 0, config: CycleConfig = TICKS) -> None:
        self._config = config
        self._ring = Ring(config.samples, config.interval_ms, n, config.store)
        self._trackers = [CycleTracker() for _ in range(n)]
        self._backoff = EvaluationBackoff(n)
        self._since_ms: Ints = np.zeros(n, np.int64)
        """Of each series, samples before this are not read any more."""
        self._last_ms = -1
        self._turn = 0

    @property
    def n(self) -> int:
        """How many columns there are."""
        return self._ring.n

    @property
    def interval_ms(self) -> int:
        """The time between samples."""
        return self._ring.interval_ms

    @property
    def window_s(self) -> float:
        """How far back the window reaches."""
        return self._ring.interval_ms / 1000 * self._config.samples

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns: column j goes on from old column ``keep[j]``, -1 is a new series."""
        self._ring.resize(keep)
        self._backoff.resize(keep)
        self._since_ms = remap(self._since_ms, keep, 0)
        self._trackers = [self._trackers[old] if old >= 0 else CycleTracker() for old in keep.tolist()]

    def update(self, ts_ms: int, values: Floats, interval_ms: int | None = None) -> None:
        """Take the tick at ``ts_ms``; ``values`` has shape (n,), NaN is absent.

        ``interval_ms`` is the nominal time between ticks; when it changes, the window begins anew. Raises
        ``ValueError`` for another shape, and for a tick that is not later than the last.
        """
        if values.shape != (self.n,):
            raise ValueError(f"values have shape {values.shape}, the bank has {self.n} columns: resize first")
        if ts_ms <= self._last_ms:
            raise ValueError(f"tick at {ts_ms} ms is not later than {self._last_ms} ms")
        if interval_ms is not None and interval_ms != self._ring.interval_ms:
            self._ring.begin(interval_ms)
        self._ring.add(ts_ms, values)
        self._last_ms = ts_ms

    def current(self, column: int) -> CycleResult:
        """The cycle that a column is locked on."""
        return self._trackers[column].current

    def locked(self) -> list[LockedCycle]:
        """The cycles that go on now, by column."""
        held = [(column, one.period_s) for column, one in enumerate(self._trackers) if one.period_s]
        windows = self._windows(np.array([column for column, _ in held], np.int64))
        return [
            LockedCycle(column, period_s, window, self._ring.interval_ms)
            for (column, period_s), window in zip(held, windows, strict=True)
        ]

    def changes(self, ts_ms: int) -> list[tuple[int, CycleResult]]:
        """The columns whose cycle was found, changed or lost since the last call, as of ``ts_ms``.

        Not every call evaluates all of every window. A cycle that is locked is followed, and searched for
        again now and then. Without a lock, older samples are evaluated less often than the newest, and so is
        a series that goes on as it did. Raises ``ValueError`` if ``ts_ms`` lies before the last tick.
        """
        if ts_ms < self._last_ms:
            raise ValueError(f"evaluation at {ts_ms} ms lies before the last tick at {self._last_ms} ms")
        self._release()
        self._backoff.observe(*self._ring.recent(RECENT))
        found = self._evaluate()
        changes: list[tuple[int, CycleResult]] = []
        for column, one in found:
            tracker = self._trackers[column]
            was_locked = tracker.period_s is not None
            result = NO_CYCLE if one is None or not one.goes_on else self._result(one)
            change = tracker.update(ts_ms, result)
            # Only what is published has to be dated.
            if change is not None and change.cyclic and change.since_ms is None and one is not None:
                change = tracker.began_at(self._began_ms(one))
            if change is not None:
                changes.append((column, change))
            if one is not None and not was_locked:
                # What lies before the part in which the cycle was found would hide it again.
                self._since_ms[column] = self._ring.start_ms(one.samples.size + one.idle)
        return changes

    def _evaluate(self) -> list[tuple[int, Detection | None]]:
        """The columns whose turn it is, and what is found in them that is sure enough."""
        limits = {column: limit for column in range(self.n) if (limit := self._limit(column))}
        columns = np.array(list(limits), np.int64)
        windows, config = self._windows(columns), self._config
        detections = find_cycles(windows, list(limits.values()), config.store.flat, early=config.early)
        found: list[tuple[int, Detection | None]] = []
        for column, one in zip(limits, detections, strict=True):
            one = one and one.slower(config.least)
            found.append((column, one if one and self._is_sure(column, one) else None))
        if self._turn % EVERY_WHOLE == 0:
            self._backoff.evaluated(columns, np.array([one is not None for _, one in found], np.bool_))
        self._turn += 1
        return found

    def _limit(self, column: int) -> int:
        """How many samples to evaluate in this turn; 0 for none.

        All columns have the same turns, as series that are evaluated together share their work.
        """
        tracker = self._trackers[column]
        if tracker.period_s is None:
            every = (1, EVERY_WHOLE, RARELY)[self._backoff.level(column)]
            part = next(part for n, part in PARTS if self._turn % n == 0)
            return self._config.samples // part if self._turn % every == 0 else 0
        every = RARELY if tracker.is_settled else EVERY_WHOLE
        return self._config.samples if tracker.wants_evaluation or self._turn % every == 0 else 0

    def _is_sure(self, column: int, found: Detection) -> bool:
        """Whether that is enough to lock, or to stay locked."""
        if self._trackers[column].period_s is not None:
            return True
        main = found.cycles[0]
        enough = SURE_OF_BEGUN if found.begun else SURE if found.whole else SURE_OF_PART
        # What rests already for longer than it did in between has most likely ended.
        return main.confidence >= enough and found.idle <= main.period / 2

    def _release(self) -> None:
        """Release the locks on cycles that ended; samples from before their end are not read again."""
        due = [c for c, tracker in enumerate(self._trackers) if tracker.wants_gain(self._last_ms)]
        for column, window in zip(due, self._windows(np.array(due, np.int64)), strict=True):
            tracker = self._trackers[column]
            period = (tracker.period_s or 0.0) * 1000 / self._ring.interval_ms
            one = follow_cycle(window, period, run=False)
            if one is not None and tracker.follow(self._last_ms, one.gain, one.noise):
                self._since_ms[column] = self._last_ms - one.strayed * self._ring.interval_ms

    def _windows(self, columns: Ints) -> list[Floats]:
        return self._ring.newest(columns, self._since_ms[columns])

    def _began_ms(self, found: Detection) -> int:
        """When the unbroken run of the main cycle began."""
        size, period = found.samples.size, found.cycles[0].period
        follow = follow_cycle(found.samples, period, run=True)
        run = max(follow.run, round(period)) if follow else size
        return self._ring.start_ms(min(run, size) + found.idle)

    def _result(self, found: Detection) -> CycleResult:
        main, *rest = found.cycles
        interval_s = self._ring.interval_ms / 1000
        others = tuple(OtherCycle(period_s=o.period * interval_s, confidence=o.confidence) for o in rest)
        return CycleResult(
            cyclic=True,
            period_s=main.period * interval_s,
            confidence=main.confidence,
            others=others or None,
        )

    def snapshot(self) -> dict[str, Any]:
        """Plain data from which ``restore`` goes on bit for bit."""
        return {
            "v": SNAPSHOT_VERSION,
            "n": self.n,
            "samples": self._config.samples,
            "last_ms": self._last_ms,
            "turn": self._turn,
            "since_ms": self._since_ms.tolist(),
            "ring": self._ring.snapshot(),
            "trackers": [tracker.snapshot() for tracker in self._trackers],
            "backoff": self._backoff.snapshot(),
        }

    @classmethod
    def restore(cls, plain: dict[str, Any], config: CycleConfig = TICKS) -> "CycleBank":
        """The bank that wrote ``plain``. Raises ``ValueError`` for one of another version or shape."""
        check_version(plain, SNAPSHOT_VERSION, "cycles")
        bank = cls(plain["n"], config)
        if plain["samples"] != config.samples:
            raise ValueError(f"snapshot of cycles: {plain['samples']} samples, not {config.samples}")
        bank._last_ms, bank._turn = plain["last_ms"], plain["turn"]
        bank._since_ms = np.array(plain["since_ms"], np.int64)
        bank._ring.restore(plain["ring"])
        bank._backoff.restore(plain["backoff"])
        bank._trackers = [CycleTracker.restore(one) for one in plain["trackers"]]
        return bank
