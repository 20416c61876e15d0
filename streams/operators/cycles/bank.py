"""The cycles of many series on one time scale: samples in, and every few seconds what has a period."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dutycycle.contract.records.derived import OtherCycle
from streams.compiled import entry
from streams.operators.columns.arrays import Bools, Floats, Ints, check_version, remap
from streams.operators.cycles.detect.follow import unbroken
from streams.operators.cycles.detect.window import Detection, Windows, active_parts, look
from streams.operators.cycles.locks import DRIFT, Locks
from streams.operators.cycles.result import NO_CYCLE, CycleResult
from streams.operators.cycles.ring import EXACT, Ring, Store
from streams.operators.cycles.schedule import RECENT, Schedule
from streams.operators.cycles.tracker import MISSES, CycleTracker

SNAPSHOT_VERSION = 3

SHARED = 2
"""So many periods of other series are looked for in a series."""


@entry("float64[::1](float64[:])")
def common_periods(periods: Floats) -> Floats:
    """The periods that most series have, at most ``SHARED`` of them, those of most series first; NaN is none.

    Periods that follow one another closely are one: the middle of them.
    """
    known = np.sort(periods[~np.isnan(periods)])
    ends, sizes, count = np.empty(known.size, np.int64), np.zeros(known.size, np.int64), 0
    for at in range(known.size):
        if at and known[at] > (1 + DRIFT) * known[at - 1]:
            count += 1
        ends[count], sizes[count] = at + 1, sizes[count] + 1
    found = np.empty(min(count + 1, SHARED) if known.size else 0)
    for place in range(found.size):
        most = int(np.argmax(sizes))  # of equals the shortest
        middle = ends[most] - sizes[most] + sizes[most] // 2
        found[place] = known[middle] if sizes[most] % 2 else (known[middle - 1] + known[middle]) / 2
        sizes[most] = 0
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleConfig:
    """A window of the newest ``samples`` on a grid of ``interval_ms``, until a tick says otherwise.

    Periods from ``least`` intervals (3 or more) to a third of the window can be found; with ``early``, those
    that have begun are found after two and a half periods. ``store`` is how samples are kept.

    ``sure``, ``sure_of_part``, ``sure_of_begun``: confidence that a lock needs, in a whole window, in a part
    of one, and in what has only begun: a series is evaluated thousands of times, so that even unlikely
    mistakes would happen. ``misses``: evaluations in a row without a cycle after which it is lost.
    """

    interval_ms: int = 1000
    samples: int = 600
    least: int = 3
    early: bool = True
    store: Store = EXACT
    sure: float = 0.9
    sure_of_part: float = 0.97
    sure_of_begun: float = 0.95
    misses: int = MISSES

    def __post_init__(self) -> None:
        if self.interval_ms <= 0 or self.samples < 64 or self.samples % 4:
            raise ValueError("interval_ms has to be positive, samples a multiple of 4 of at least 64")


TICKS = CycleConfig()
"""The newest ten minutes of ticks of a second."""


class LockedCycles(NamedTuple):
    """The columns with a cycle that goes on, their periods, and the samples of each since it began, which are
    ``interval_ms`` apart."""

    columns: Ints
    periods_s: Floats
    windows: Windows
    interval_ms: int


class CycleBank:
    """The windows of n series, and the cycles that were found in them."""

    def __init__(self, n: int = 0, config: CycleConfig = TICKS) -> None:
        self._config = config
        self._ring = Ring(config.samples, config.interval_ms, n, config.store)
        self._locks = Locks(n)
        self._trackers = [CycleTracker(config.misses) for _ in range(n)]
        self._schedule = Schedule(n, config.samples)
        self._since_ms: Ints = np.zeros(n, np.int64)
        """Of each series, samples before this are not read any more."""
        self._doubted: Bools = np.zeros(n, np.bool_)
        """The trackers that want to look again: the last look did not confirm the lock."""
        self._told: Bools = np.zeros(n, np.bool_)
        """The trackers that have published a cycle."""
        self._last_ms = -1

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
        self._locks.resize(keep)
        self._schedule.resize(keep)
        self._since_ms = remap(self._since_ms, keep, 0)
        self._doubted, self._told = remap(self._doubted, keep, 0), remap(self._told, keep, 0)
        misses = self._config.misses
        self._trackers = [self._trackers[old] if old >= 0 else CycleTracker(misses) for old in keep.tolist()]

    def update(self, ts_ms: int, values: Floats, interval_ms: int | None = None) -> None:
        """Take the tick at ``ts_ms``; ``values`` has shape (n,), NaN is absent. See ``extend``."""
        self.extend(np.array([ts_ms]), np.array([values]), interval_ms)

    def extend(self, times: Ints, rows: Floats, interval_ms: int | None = None) -> None:
        """Take ticks in the order of their ``times``, shape (ticks,); ``rows`` has shape (ticks, n).

        ``interval_ms`` is the nominal time between ticks; when it changes, the window begins anew. Raises
        ``ValueError`` for another shape, and for a tick that is not later than the last.
        """
        if rows.shape[1] != self.n:
            raise ValueError(f"values of {rows.shape[1]} series, the bank has {self.n} columns: resize first")
        if times[0] <= self._last_ms:
            raise ValueError(f"tick at {times[0]} ms is not later than {self._last_ms} ms")
        if interval_ms is not None and interval_ms != self._ring.interval_ms:
            self._ring.begin(interval_ms)
            self._schedule.begin()
        self._ring.extend(times, rows)
        self._last_ms = int(times[-1])

    def current(self, column: int) -> CycleResult:
        """The cycle that a column is locked on."""
        return self._trackers[column].current

    def locked(self, among: Bools | None = None) -> LockedCycles:
        """The cycles that go on now, by column; ``among``, shape (n,): only of these."""
        locked = self._locks.locked
        columns = (locked if among is None else locked & among).nonzero()[0]
        return LockedCycles(
            columns, self._locks.periods_s[columns], self._windows(columns), self._ring.interval_ms
        )

    def changes(self, ts_ms: int) -> list[tuple[int, CycleResult]]:
        """The columns whose cycle was found, changed or lost since the last call, as of ``ts_ms``.

        A cycle that is locked is followed, and looked for again now and then. Without a lock, a window is
        looked at when enough in it is new. Raises ``ValueError`` if ``ts_ms`` lies before the last tick.
        """
        if ts_ms < self._last_ms:
            raise ValueError(f"evaluation at {ts_ms} ms lies before the last tick at {self._last_ms} ms")
        self._follow()
        self._schedule.observe(self._ring.recent(RECENT), self._ring.slot)
        changes: list[tuple[int, CycleResult]] = []
        for column, one in self._look():
            if (change := self._take(ts_ms, column, one)) is not None:
                changes.append((column, change))
        return changes

    def _take(self, ts_ms: int, column: int, found: Detection | None) -> CycleResult | None:
        """What to publish after a look at a column."""
        tracker = self._trackers[column]
        was_locked = tracker.period_s is not None
        result = NO_CYCLE if found is None or not found.goes_on else self._result(found)
        change = tracker.update(ts_ms, result)
        # Only what is published has to be dated.
        if change is not None and change.cyclic and change.since_ms is None and found is not None:
            change = tracker.began_at(self._began_ms(found))
        if found is not None and not was_locked:
            # What lies before the part in which the cycle was found would hide it again.
            self._since_ms[column] = self._ring.start_ms(found.samples.size + found.idle)
        self._locks.hold(column, tracker.period_s)
        self._doubted[column], self._told[column] = tracker.is_in_doubt, tracker.has_told
        if was_locked and tracker.period_s is None:
            self._schedule.wake(self._ring.slot, column)
        return change

    def _follow(self) -> None:
        """Release the locks on cycles that ended; samples from before their end are not read again."""
        columns, interval_ms = self._locks.to_follow(self._last_ms), self._ring.interval_ms
        if not columns.size:
            return
        ended, doubted = self._locks.follow(self._last_ms, interval_ms, columns, self._windows(columns))
        self._doubted[doubted] = True
        for column, strayed in ended:
            self._trackers[column].release(self._last_ms)
            self._since_ms[column] = self._last_ms - strayed * interval_ms
            self._doubted[column] = True
            self._schedule.wake(self._ring.slot, column)

    def _look(self) -> list[tuple[int, Detection | None]]:
        """The columns that were looked at to some purpose, and what is in them that is sure enough."""
        config, slot, locked = self._config, self._ring.slot, self._locks.locked
        columns = self._schedule.due(slot, self._ring.sizes(self._since_ms), locked, self._doubted)
        if not columns.size:
            return []
        windows, expected = self._windows(columns), locked | self._told
        parts = active_parts(windows)
        limits = self._schedule.limits(slot, columns, parts, expected)
        periods = common_periods(self._locks.periods_s) * 1000 / self._ring.interval_ms
        found = look(windows, parts, limits, config.store.flat, early=config.early, periods=periods)
        rows = sorted({*found, *expected[columns].nonzero()[0].tolist()})
        return [(column := int(columns[row]), self._sure(column, found.get(row), periods)) for row in rows]

    def _sure(self, column: int, found: Detection | None, periods: Floats) -> Detection | None:
        """What was found, if that is enough to lock, or to stay locked."""
        found = found and found.slower(self._config.least)
        if found is None or self._trackers[column].period_s is not None:
            return found
        main, config = found.cycles[0], self._config
        enough = config.sure_of_begun if found.begun else config.sure if found.whole else config.sure_of_part
        if (np.abs(periods - main.period) <= DRIFT * main.period).any():
            enough = 0.0
        # What rests already for longer than it did in between has most likely ended.
        return found if main.confidence >= enough and found.idle <= main.period / 2 else None

    def _windows(self, columns: Ints) -> Windows:
        return self._ring.windows(columns, self._since_ms)

    def _began_ms(self, found: Detection) -> int:
        """When the unbroken run of the main cycle began."""
        size = found.samples.size
        run = unbroken(np.ascontiguousarray(found.samples), found.cycles[0].period)
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
            "since_ms": self._since_ms.tolist(),
            "doubted": self._doubted.nonzero()[0].tolist(),
            "ring": self._ring.snapshot(),
            "locks": self._locks.snapshot(),
            "trackers": [tracker.snapshot() for tracker in self._trackers],
            "schedule": self._schedule.snapshot(),
        }

    @classmethod
    def restore(cls, plain: dict[str, Any], config: CycleConfig = TICKS) -> "CycleBank":
        """The bank that wrote ``plain``. Raises ``ValueError`` for one of another version or shape."""
        check_version(plain, SNAPSHOT_VERSION, "cycles")
        bank = cls(plain["n"], config)
        if plain["samples"] != config.samples:
            raise ValueError(f"snapshot of cycles: {plain['samples']} samples, not {config.samples}")
        bank._last_ms = plain["last_ms"]
        bank._since_ms = np.array(plain["since_ms"], np.int64)
        bank._ring.restore(plain["ring"])
        bank._locks.restore(plain["locks"])
        bank._schedule.restore(plain["schedule"])
        bank._trackers = [CycleTracker.restore(one, config.misses) for one in plain["trackers"]]
        bank._doubted[plain["doubted"]] = True
        bank._told[:] = [tracker.has_told for tracker in bank._trackers]
        return bank
