"""The cycles of many series: samples in, and every few seconds of event time what has a period.

``CycleBank`` keeps a window of each series. ``evaluate`` says what each one's cycle is now; ``changes``
does so too, remembers what was said, and returns only what is news.
"""

from operator import itemgetter
from typing import Any

import numpy as np

from contract.records.derived import OtherCycle
from streams.operators.columns.arrays import Floats, Ints, check_version, remap
from streams.operators.cycles.config import CycleConfig, CycleResult
from streams.operators.cycles.ring import Ring
from streams.operators.cycles.schedule import Patience
from streams.operators.cycles.tracker import CycleTracker
from streams.operators.cycles.window import Seen, follow_each, look

SNAPSHOT_VERSION = 1
EVERY_WHOLE, RARELY = 6, 12
"""Looks of which one is at whole windows; and at those in which nothing changes."""
LOOKS = ((EVERY_WHOLE, 1), (3, 2), (1, 4))
"""In every so-manieth look the newest samples, whole window over so much; the first that fits counts."""
NOTICED = 10
"""Newest samples that are compared with what is usual."""
SURE, SURE_OF_PART, SURE_OF_BEGUN = 0.9, 0.97, 0.95
"""Confidence that a lock needs, in a whole window, in a part of one, and in what has only begun."""
NO_CYCLE = CycleResult(cyclic=False)


class CycleBank:
    """The windows of n series, and what was told about them."""

    def __init__(self, config: CycleConfig | None = None, n: int = 0) -> None:
        self._config = config or CycleConfig()
        self._ring = Ring(self._config.samples, self._config.interval_ms, n, self._config.store)
        self._trackers = [CycleTracker() for _ in range(n)]
        self._patience = Patience(n)
        self._since_ms: Ints = np.zeros(n, np.int64)
        self._last_ms = -1
        self._turn = 0

    @property
    def n(self) -> int:
        """How many columns there are."""
        return self._ring.n

    def resize(self, keep: Ints, n: int) -> None:
        """From now on there are ``n`` columns: column j goes on from old column ``keep[j]``, -1 is new."""
        if keep.shape != (n,):
            raise ValueError(f"keep has shape {keep.shape}, expected ({n},)")
        self._ring.resize(keep)
        self._patience.resize(keep)
        self._since_ms = remap(self._since_ms, keep, 0)
        self._trackers = [self._trackers[old] if old >= 0 else CycleTracker() for old in keep.tolist()]

    def update(self, ts_ms: int, values: Floats, interval_ms: int | None = None) -> None:
        """Take the tick at ``ts_ms`` (later than the last). ``values`` has shape (n,); NaN is absent.

        ``interval_ms`` is the nominal time between ticks; when it changes, the window begins anew.
        """
        if values.shape != (self.n,):
            raise ValueError(f"values have shape {values.shape}, the bank has {self.n} columns: resize first")
        if ts_ms <= self._last_ms:
            raise ValueError(f"tick at {ts_ms} ms is not later than {self._last_ms} ms")
        if interval_ms is not None and interval_ms != self._ring.interval_ms:
            self._ring.begin(interval_ms)
        self._ring.add(ts_ms, values)
        self._last_ms = ts_ms

    def evaluate(self, ts_ms: int, columns: Ints | None = None) -> list[tuple[int, CycleResult]]:
        """Each of ``columns`` (all by default) with its cycle as of ``ts_ms``, the last tick's time."""
        chosen = self._chosen(ts_ms, columns)
        seen = self._look(chosen)
        return list(zip(chosen.tolist(), self._results(seen), strict=True))

    def changes(self, ts_ms: int, columns: Ints | None = None) -> list[tuple[int, CycleResult]]:
        """Those of ``columns`` whose cycle was found, changed or lost since the last call.

        Not every call looks at all of every window: a cycle that is locked on is followed, and looked
        for again now and then; without one, what is older is looked at less often, and so is a series
        that goes on as it did.
        """
        chosen = self._chosen(ts_ms, columns)
        self._release(chosen)
        self._patience.notice(*self._ring.lately(NOTICED))
        whole = self._turn % EVERY_WHOLE == 0
        turns = {column: limit for column in chosen.tolist() if (limit := self._limit(column))}
        self._turn += 1
        looked = np.array(list(turns), np.int64)
        seen = self._look(looked, list(turns.values()), early=self._config.early)
        seen = [
            one if one and self._sure(column, one) else None for column, one in zip(turns, seen, strict=True)
        ]
        if whole:
            self._patience.looked(looked, np.array([one is not None for one in seen], np.bool_))
        news: list[tuple[int, CycleResult]] = []
        undated: list[tuple[int, Seen]] = []
        for column, one in zip(turns, seen, strict=True):
            was_locked = self._trackers[column].period_s is not None
            result = NO_CYCLE if one is None or not one.goes_on else self._result(one)
            told = self._trackers[column].take(ts_ms, result)
            if told is not None and told.cyclic and told.since_ms is None and one is not None:
                undated.append((column, one))
            elif told is not None:
                news.append((column, told))
            if one is not None and not was_locked:
                # What lies before the part in which the cycle was found would hide it again.
                self._since_ms[column] = self._ring.start_ms(one.samples.size + one.idle)
        # Only what is told has to be dated, which takes as long as to find it.
        begun = self._begun([one for _, one in undated])
        for (column, _), since_ms in zip(undated, begun, strict=True):
            news.append((column, self._trackers[column].date(since_ms)))
        return sorted(news, key=itemgetter(0))

    def locked(self) -> list[tuple[int, float, Floats, int]]:
        """The columns with a cycle now: each one's period (s), the samples since it began, oldest first,
        and the interval between those (ms)."""
        held = [(column, one.period_s) for column, one in enumerate(self._trackers) if one.period_s]
        columns = np.array([column for column, _ in held], np.int64)
        windows = self._ring.newest(columns, self._since_ms[columns])
        return [
            (column, period_s, window, self._ring.interval_ms)
            for (column, period_s), window in zip(held, windows, strict=True)
        ]

    def _look(
        self, columns: Ints, limits: list[int] | None = None, *, early: bool = False
    ) -> list[Seen | None]:
        windows = self._ring.newest(columns, self._since_ms[columns])
        seen = look(windows, limits, self._config.store.flat, early=early)
        return [one and one.slower(self._config.least) for one in seen]

    def current(self, column: int) -> CycleResult:
        """The cycle that a column is locked on."""
        return self._trackers[column].current

    def told(self, column: int) -> CycleResult | None:
        """What was told of a column last."""
        return self._trackers[column].told

    @property
    def interval_ms(self) -> int:
        """The time between samples."""
        return self._ring.interval_ms

    @property
    def interval_s(self) -> float:
        """The same in seconds."""
        return self._ring.interval_ms / 1000

    @property
    def window_s(self) -> float:
        """How far back is looked."""
        return self.interval_s * self._config.samples

    def _sure(self, column: int, seen: Seen) -> bool:
        """Whether that is enough to begin with, or to go on: a series is looked at thousands of times."""
        if self._trackers[column].period_s is not None:
            return True
        main = seen.cycles[0]
        enough = SURE_OF_BEGUN if seen.begun else SURE if seen.whole else SURE_OF_PART
        # What rests already for longer than it did in between has most likely ended.
        return main.confidence >= enough and seen.idle <= main.period / 2

    def _limit(self, column: int) -> int:
        """How many samples to look at this time; 0 for none.

        All columns have the same turns, as series that are looked at together share their work.
        """
        samples = next(self._config.samples // part for n, part in LOOKS if self._turn % n == 0)
        tracker = self._trackers[column]
        if tracker.period_s is None:
            every = (1, EVERY_WHOLE, RARELY)[self._patience.level(column)]
            return samples if self._turn % every == 0 else 0
        due = tracker.curious or self._turn % (RARELY if tracker.settled else EVERY_WHOLE) == 0
        return self._config.samples if due else 0

    def _chosen(self, ts_ms: int, columns: Ints | None) -> Ints:
        if ts_ms < self._last_ms:
            raise ValueError(f"evaluation at {ts_ms} ms lies before the last tick at {self._last_ms} ms")
        return np.arange(self.n) if columns is None else np.asarray(columns, np.int64)

    def _release(self, columns: Ints) -> None:
        """Let go of the cycles that ended; what was before their end is not looked at again."""
        locked = np.array([c for c in columns.tolist() if self._trackers[c].follows(self._last_ms)], np.int64)
        windows = self._ring.newest(locked, self._since_ms[locked])
        period_s = [self._trackers[column].period_s or 0.0 for column in locked.tolist()]
        periods = [one * 1000 / self._ring.interval_ms for one in period_s]
        followed = follow_each(windows, periods, runs=False)
        for column, lately in zip(locked.tolist(), followed, strict=True):
            if lately is not None and self._trackers[column].broken(self._last_ms, lately.gain, lately.noise):
                self._since_ms[column] = self._last_ms - lately.strange * self._ring.interval_ms

    def _results(self, seen: list[Seen | None]) -> list[CycleResult]:
        begun = iter(self._begun([one for one in seen if one is not None and one.goes_on]))
        return [
            self._result(one, next(begun)) if one is not None and one.goes_on else NO_CYCLE for one in seen
        ]

    def _begun(self, going: list[Seen]) -> list[int]:
        """When the unbroken run of each cycle began."""
        periods = [one.cycles[0].period for one in going]
        followed = follow_each([one.samples for one in going], periods, runs=True)
        runs = [
            max(lately.run, round(period)) if lately else one.samples.size
            for one, period, lately in zip(going, periods, followed, strict=True)
        ]
        return [
            self._ring.start_ms(min(run, one.samples.size) + one.idle)
            for one, run in zip(going, runs, strict=True)
        ]

    def _result(self, seen: Seen, since_ms: int | None = None) -> CycleResult:
        main, *rest = seen.cycles
        interval_s = self._ring.interval_ms / 1000
        others = tuple(OtherCycle(period_s=o.period * interval_s, confidence=o.confidence) for o in rest)
        return CycleResult(
            cyclic=True,
            period_s=main.period * interval_s,
            confidence=main.confidence,
            since_ms=since_ms,
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
            "patience": self._patience.snapshot(),
        }

    @classmethod
    def restore(cls, config: CycleConfig | None, snapshot: dict[str, Any]) -> "CycleBank":
        """The bank that wrote ``snapshot``. Raises ``ValueError`` for one of another version or shape."""
        check_version(snapshot, SNAPSHOT_VERSION, "cycles")
        bank = cls(config, snapshot["n"])
        if snapshot["samples"] != bank._config.samples:
            raise ValueError(f"snapshot of cycles: {snapshot['samples']} samples, not {bank._config.samples}")
        bank._last_ms, bank._turn = snapshot["last_ms"], snapshot["turn"]
        bank._since_ms = np.array(snapshot["since_ms"], np.int64)
        bank._ring.restore(snapshot["ring"])
        if "patience" in snapshot:  # which it was not at first
            bank._patience.restore(snapshot["patience"])
        bank._trackers = [CycleTracker.restore(plain) for plain in snapshot["trackers"]]
        return bank
