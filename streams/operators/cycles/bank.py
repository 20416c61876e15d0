"""Finds the cycles of many series on one time scale: samples in, and every few seconds what has a period."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import msgspec
import numpy as np

from dutycycle.contract.records.derived import CycleMetric, OtherCycle
from streams.compiled import entry
from streams.operators.columns.arrays import Bools, Floats, Ints, check_version, keep_once, remap
from streams.operators.columns.vectors import sorted_known
from streams.operators.cycles.detect.detector import FEW_SAMPLES, SKIPPED
from streams.operators.cycles.detect.follow import unbroken
from streams.operators.cycles.detect.spectrum import FLAT
from streams.operators.cycles.detect.window import Detection, Windows, active_parts, find_cycles, look
from streams.operators.cycles.locks import DRIFT, Locks
from streams.operators.cycles.result import NO_CYCLE, multiple, near
from streams.operators.cycles.ring import EXACT, Ring, Store
from streams.operators.cycles.schedule import RECENT, SHORT, Schedule
from streams.operators.cycles.tracker import MISSES, CycleTracker

SNAPSHOT_VERSION = 7
ANEW = 10
"""So many ticks in a row have to be as far apart as one another before the grid becomes theirs: a scrape that
was missed makes one interval longer, and no other rhythm."""
SAME = 8
"""Intervals that differ by up to an eighth are the same: scrapes are some milliseconds early or late."""
FEWEST_SURE = 4.5
"""Periods that a short part has to hold, and a window those of few samples: three are alike by chance."""
YOUNG_MS = 30_000
"""What goes on for less has to hold as many: where a run begins, what warms up is alike a few times, too."""
MOST_DRIFT = 0.5
"""Samples by which a whole number of them may be off what a window's periods take together: then their ticks
fall into the same phases."""
ALIKE = 0.5
"""Correlation from which samples are alike a period later."""
SHARED = 2
"""So many periods of other series are looked for in a series."""


def is_same_interval(interval_ms: int, other_ms: int) -> bool:
    """Tell whether both are one interval between ticks, whatever the ticks' jitter is."""
    return abs(interval_ms - other_ms) * SAME <= other_ms


@entry("float64[::1](float64[:])")
def common_periods(periods: Floats) -> Floats:
    """Return the periods that most series have, at most ``SHARED`` of them, those of most series first; NaN
    is none.

    Periods that follow one another closely are one: the middle of them.
    """
    known = sorted_known(periods)
    ends, sizes, count = np.empty(known.size, np.int64), np.zeros(known.size, np.int64), 0
    for at in range(known.size):
        if at and known[at] > (1 + DRIFT) * known[at - 1]:
            count += 1
        ends[count], sizes[count] = at + 1, sizes[count] + 1
    medians = np.empty(min(count + 1, SHARED) if known.size else 0)
    for place in range(medians.size):
        most = int(np.argmax(sizes))  # of equals the shortest
        middle = ends[most] - sizes[most] + sizes[most] // 2
        medians[place] = known[middle] if sizes[most] % 2 else (known[middle - 1] + known[middle]) / 2
        sizes[most] = 0
    return medians


def sampled(detection: Detection, periods: Floats) -> Detection:
    """Return the ``detection`` with the period that it has by the ``periods`` (samples) that are known of
    this series and its siblings, if it is a multiple of one of few samples.

    Ticks fall differently into each of its periods, and in one series a step may show in every other alone.
    """
    main = detection.cycles[0]
    for known in periods[periods < FEW_SAMPLES].tolist():
        times = round(main.period / known)
        if 2 <= times <= SKIPPED and near(main.period, times * known, DRIFT / 2):
            main = replace(main, period=main.period / times)
            return replace(detection, cycles=(main, *detection.cycles[1:]))
    return detection


def shortest(new: Sequence[Detection], least: int, flat: float = FLAT) -> list[Detection]:
    """Return what was found anew, each with the period of which its newest half is as sure, if that is a part
    of its own and has at least ``least`` samples: where a run begins or changes, a multiple may explain
    more."""
    if not new:
        return []
    halves = find_cycles([detection.samples[detection.samples.size // 2 :] for detection in new], flat)
    detections = [*new]
    for at, half in enumerate(halves):
        main = detections[at].cycles[0]
        newest = half.cycles[0] if half is not None else main
        shorter = least <= newest.period < main.period and multiple(main.period, newest.period)
        if shorter and newest.confidence >= main.confidence:
            detections[at] = replace(detections[at], cycles=(newest, *detections[at].cycles[1:]))
    return detections


def repeating(detection: Detection) -> Detection:
    """Return the ``detection`` with the multiple of its period after which the samples are alike, where a
    period later they are rather unlike: ticks that fall into few phases may share these, and nothing else.

    Only of a period of few, and nearly whole, samples: of others each tick falls into another phase.
    """
    main, samples = detection.cycles[0], detection.samples
    lag = round(main.period)
    drift = abs(main.period - lag) * samples.size / main.period
    if main.period >= FEW_SAMPLES or drift > MOST_DRIFT or likeness(samples, lag) >= 0:
        return detection
    for times in range(2, SKIPPED + 1):
        if FEWEST_SURE * times * lag <= samples.size and likeness(samples, times * lag) >= ALIKE:
            main = replace(main, period=main.period * times)
            return replace(detection, cycles=(main, *detection.cycles[1:]))
    return detection


def likeness(samples: Floats, lag: int) -> float:
    """Return the correlation of the samples with those ``lag`` earlier; 0 of what does not move."""
    first, other = samples[:-lag] - samples[:-lag].mean(), samples[lag:] - samples[lag:].mean()
    size = float(np.sqrt((first * first).sum() * (other * other).sum()))
    return float((first * other).sum()) / size if size > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CycleConfig:
    """Describes a window of the newest ``samples`` on a grid of ``interval_ms``, until a tick says otherwise.

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
    """Holds the columns with a cycle that goes on, their periods, and the samples of each since it began,
    which are ``interval_ms`` apart."""

    columns: Ints
    periods_s: Floats
    windows: Windows
    interval_ms: int


class CycleBank:
    """Keeps the windows of n series, and the cycles that were found in them."""

    def __init__(self, n: int, config: CycleConfig = TICKS, siblings: Ints | None = None) -> None:
        self._config = config
        self._siblings: Ints = keep_once(np.arange(n)) if siblings is None else siblings
        self._ring = Ring(config.samples, config.interval_ms, n, config.store)
        self._locks = Locks(n)
        self._trackers: dict[int, CycleTracker] = {}
        """Those of the columns that ever had a cycle."""
        self._schedule = Schedule(n, config.samples)
        self._since_ms: Ints = np.zeros(n, np.int64)
        """Of each series, samples before this are not read any more."""
        self._short: Bools = np.zeros(n, np.bool_)
        """The locks on what was found in a short part: the rest of the window may show something slower."""
        self._doubted: Bools = np.zeros(n, np.bool_)
        """The trackers that want to look again: the last look did not confirm the lock."""
        self._told: Bools = np.zeros(n, np.bool_)
        """The trackers that have published a cycle."""
        self._last_ms = -1
        self._other_ms, self._agreed = 0, 0
        """The interval of the newest ticks where it is not that of the grid, and of how many in a row."""

    @property
    def n(self) -> int:
        """Return how many columns there are."""
        return self._ring.n

    @property
    def interval_ms(self) -> int:
        """Return the time between samples."""
        return self._ring.interval_ms

    @property
    def window_s(self) -> float:
        """Return how many seconds the window reaches back."""
        return self._ring.interval_ms / 1000 * self._config.samples

    def resize(self, keep: Ints, siblings: Ints | None = None) -> None:
        """Rearrange the columns: column j goes on from old column ``keep[j]``, -1 is a new series.

        ``siblings``: of each column a number that it shares with those that show the same steps.
        """
        self._siblings = keep_once(np.arange(keep.size)) if siblings is None else siblings
        self._ring.resize(keep)
        self._locks.resize(keep)
        self._schedule.resize(keep)
        self._since_ms = remap(self._since_ms, keep, 0)
        self._doubted, self._told = remap(self._doubted, keep, 0), remap(self._told, keep, 0)
        self._short = remap(self._short, keep, 0)
        places = enumerate(keep.tolist())
        self._trackers = {new: self._trackers[old] for new, old in places if old in self._trackers}

    def update(self, ts_ms: int, values: Floats, interval_ms: int | None = None) -> None:
        """Take the tick at ``ts_ms``; ``values`` has shape (n,), NaN is absent. See ``extend``."""
        self.extend(np.array([ts_ms]), np.array([values]), interval_ms)

    def extend(self, times: Ints, rows: Floats, interval_ms: int | None = None) -> None:
        """Take ticks in the order of their ``times``, shape (ticks,); ``rows`` has shape (ticks, n).

        ``interval_ms`` is the nominal time between ticks; when it changes for good, the window begins anew.
        Raises ``ValueError`` for another shape, and for a tick that is not later than the last.
        """
        if rows.shape[1] != self.n:
            raise ValueError(f"values of {rows.shape[1]} series, the bank has {self.n} columns: resize first")
        if times[0] <= self._last_ms:
            raise ValueError(f"tick at {times[0]} ms is not later than {self._last_ms} ms")
        of_grid = times.size if interval_ms is None else self._ticks_of_grid(interval_ms, times.size)
        if of_grid:
            self._ring.extend(times[:of_grid], rows[:of_grid])
        if interval_ms is not None and of_grid < times.size:
            self._ring.begin(interval_ms)
            self._schedule.begin()
            self._ring.extend(times[of_grid:], rows[of_grid:])
        self._last_ms = int(times[-1])

    def _ticks_of_grid(self, interval_ms: int, ticks: int) -> int:
        """Count how many of so many ticks, with this interval, go on in the grid before it becomes theirs.

        It is the same whatever ticks are taken together.
        """
        if self._ring.slot < 0:  # nothing is in it yet
            return 0 if interval_ms != self._ring.interval_ms else ticks
        if is_same_interval(interval_ms, self._ring.interval_ms):
            self._agreed = 0
            return ticks
        if not (self._agreed and is_same_interval(interval_ms, self._other_ms)):
            self._other_ms, self._agreed = interval_ms, 0
        left = ANEW - 1 - self._agreed
        self._agreed = 0 if ticks > left else self._agreed + ticks
        return min(ticks, left)

    def current(self, column: int) -> CycleMetric:
        """Return the cycle that a column is locked on."""
        return self._tracker(column).current

    def _tracker(self, column: int) -> CycleTracker:
        return self._trackers.get(column) or CycleTracker()

    def locked(self, among: Bools | None = None) -> LockedCycles:
        """Return the cycles that go on now, by column; ``among``, shape (n,): only of these."""
        locked = self._locks.locked
        columns = (locked if among is None else locked & among).nonzero()[0]
        windows = self._ring.windows(columns, self._since_ms)
        return LockedCycles(columns, self._locks.periods_s[columns], windows, self._ring.interval_ms)

    def changes(self, ts_ms: int) -> list[tuple[int, CycleMetric]]:
        """Return the columns whose cycle was found, changed or lost since the last call, as of ``ts_ms``.

        A cycle that is locked is followed, and looked for again now and then. Without a lock, a window is
        looked at when enough in it is new. Raises ``ValueError`` if ``ts_ms`` lies before the last tick.
        """
        if ts_ms < self._last_ms:
            raise ValueError(f"evaluation at {ts_ms} ms lies before the last tick at {self._last_ms} ms")
        followed, interval_ms = self._locks.to_follow(self._last_ms), self._ring.interval_ms
        if followed.size:
            windows = self._ring.windows(followed, self._since_ms)
            ended, doubted = self._locks.follow(self._last_ms, interval_ms, followed, windows)
            self._doubted[doubted] = True
            # Samples from before the end of a cycle are not read again.
            for column, strayed in ended:
                self._trackers[column].release(self._last_ms)
                self._short[column] = False
                self._since_ms[column] = self._last_ms - strayed * interval_ms
                self._doubted[column] = True
                self._schedule.wake(self._ring.slot, column)
        self._schedule.observe(self._ring.recent(RECENT), self._ring.slot)
        changes: list[tuple[int, CycleMetric]] = []
        for column, detection in self._look():
            if (change := self._take(ts_ms, column, detection)) is not None:
                changes.append((column, change))
        return changes

    def _take(self, ts_ms: int, column: int, detection: Detection | None) -> CycleMetric | None:
        """Return what to publish after a look at a column; None for nothing."""
        tracker, result = self._tracker(column), NO_CYCLE
        if detection is not None and detection.goes_on:
            (main, *rest), interval_s = detection.cycles, self._ring.interval_ms / 1000
            others = tuple(OtherCycle(period_s=o.period * interval_s, confidence=o.confidence) for o in rest)
            result = CycleMetric(
                cyclic=True, period_s=main.period * interval_s, confidence=main.confidence,
                others=others or None,
            )  # fmt: skip
            self._trackers[column] = tracker
        if detection is not None and self._short[column] and not detection.short:
            self._short[column] = False
            if not near(result.period_s or 0.0, tracker.period_s or 0.0, DRIFT):
                tracker.release(ts_ms)
        was_locked = tracker.period_s is not None
        change = tracker.update(ts_ms, result, self._config.misses)
        # Only what is published has to be dated: by when the unbroken run of the main cycle began.
        if change is not None and change.cyclic and change.since_ms is None and detection is not None:
            run = unbroken(np.ascontiguousarray(detection.samples), detection.cycles[0].period)
            run = min(run, detection.samples.size) + detection.idle
            change = tracker.began_at(self._ring.start_ms(run))
        if detection is not None and detection.short:
            self._short[column] = tracker.period_s is not None
        elif detection is not None and not was_locked:
            # What lies before the part in which the cycle was found would hide it again.
            self._since_ms[column] = self._ring.start_ms(detection.samples.size + detection.idle)
        self._locks.hold(column, tracker.period_s)
        self._short[column] &= tracker.period_s is not None
        self._doubted[column], self._told[column] = tracker.is_in_doubt, tracker.has_told
        if was_locked and tracker.period_s is None:
            self._schedule.wake(self._ring.slot, column)
        return change

    def _look(self) -> list[tuple[int, Detection | None]]:
        """Return the columns that were looked at to some purpose, and what is in them that is sure enough."""
        config, slot, locked = self._config, self._ring.slot, self._locks.locked
        settled = locked & ~self._short
        unsure = self._doubted | self._short
        columns = self._schedule.due(slot, self._ring.sizes(self._since_ms), settled, unsure)
        if not columns.size:
            return []
        windows, expected = self._ring.windows(columns, self._since_ms), settled | (self._told & ~locked)
        parts = active_parts(*windows)
        limits = self._schedule.limits(slot, columns, parts, expected)
        periods = common_periods(self._locks.periods_s) * 1000 / self._ring.interval_ms
        rows = np.arange(columns.size)
        if config.early:
            # The newest samples of those without a settled cycle are looked at beside, in the same call.
            turns, lengths = self._schedule.short(slot, columns, windows.sizes, expected, self._short)
            newest = windows.newest(turns, lengths)
            windows, rows = windows.joined(newest), np.concatenate((rows, turns))
            parts = np.concatenate((parts, active_parts(*newest)))
            limits = np.concatenate((limits, lengths))
        early = columns.size if config.early else 0
        detections = look(windows, parts, limits, config.store.flat, early=early, periods=periods)
        sure: dict[int, Detection | None] = dict.fromkeys(expected[columns].nonzero()[0].tolist())
        # One that was found in a short part, and is not there any more.
        shortly = rows[columns.size :]
        sure |= dict.fromkeys(shortly[self._short[columns[shortly]]].tolist())
        for at, detection in sorted(detections.items()):
            row = int(rows[at])
            if at >= columns.size:
                detection = replace(detection, cycles=detection.cycles[:1], short=True)
            if (
                sure.get(row) is None
                and (known := self._sure(int(columns[row]), detection, periods)) is not None
            ):
                sure[row] = known
        self._look_again(windows, columns, sure, periods)
        new = {
            row: detection
            for row, detection in sure.items()
            if detection is not None and not locked[columns[row]]
        }
        anew = shortest([*new.values()], config.least, config.store.flat)
        sure |= zip(new, map(repeating, anew), strict=True)
        return [(int(columns[row]), sure[row]) for row in sorted(sure)]

    def _look_again(
        self, windows: Windows, columns: Ints, sure: dict[int, Detection | None], periods: Floats
    ) -> None:
        """Look for locked cycles that the whole window does not show in its newest samples: steps drift."""
        rows = np.array([row for row, detection in sure.items() if detection is None], np.int64)
        rows = rows[self._locks.locked[columns[rows]]]
        length = self._config.samples >> SHORT[0]
        if not rows.size or not self._config.early:
            return
        newest = windows.newest(rows, np.full(rows.size, length))
        limits = np.full(rows.size, length)
        again = look(newest, active_parts(*newest), limits, self._config.store.flat, periods=periods)
        for at, detection in again.items():
            column = int(columns[rows[at]])
            known = self._sure(column, replace(detection, cycles=detection.cycles[:1], short=True), periods)
            if known is not None and near(self._period_s(known), self._locks.periods_s[column], DRIFT):
                sure[int(rows[at])] = known

    def _period_s(self, detection: Detection) -> float:
        """Return the period of the main cycle in seconds."""
        return detection.cycles[0].period * self._ring.interval_ms / 1000

    def _sure(self, column: int, detection: Detection, periods: Floats) -> Detection | None:
        """Return what was found, if that is enough to lock, or to stay locked."""
        before_s, now_s = self._tracker(column).period_s, self._period_s(detection)
        if before_s is not None and (near(now_s, before_s, DRIFT) or not self._short[column]):
            return detection.slower(self._config.least)
        # What is slower may hide behind a cycle that was found in a short part; a multiple of that is none.
        finer = before_s is not None and (now_s < before_s or multiple(now_s, before_s))
        if finer and self._short[column] and not detection.short:
            return None
        siblings_s = self._locks.periods_s[self._siblings == self._siblings[column]]
        siblings = siblings_s[~np.isnan(siblings_s)] * 1000 / self._ring.interval_ms
        known = sampled(detection, np.append(siblings, periods)).slower(self._config.least)
        if known is None:
            return None
        main, config = known.cycles[0], self._config
        few = main.period < FEW_SAMPLES
        young = known.samples.size * self._ring.interval_ms < YOUNG_MS
        if (known.short or few or young) and known.samples.size < FEWEST_SURE * main.period:
            return None
        enough = config.sure if known.whole and not (known.short or few) else config.sure_of_part
        enough = config.sure_of_begun if known.begun else enough
        if (np.abs(periods - main.period) <= DRIFT * main.period).any():
            enough = 0.0
        # What rests already for longer than it did in between has most likely ended.
        return known if main.confidence >= enough and known.idle <= main.period / 2 else None

    def snapshot(self) -> dict[str, Any]:
        """Return plain data from which ``restore`` goes on bit for bit."""
        return {
            "v": SNAPSHOT_VERSION,
            "n": self.n,
            "samples": self._config.samples,
            "last_ms": self._last_ms,
            "other": [self._other_ms, self._agreed],
            "since_ms": self._since_ms.tolist(),
            "short": self._short.nonzero()[0].tolist(),
            "doubted": self._doubted.nonzero()[0].tolist(),
            "ring": self._ring.snapshot(),
            "locks": self._locks.snapshot(),
            "trackers": [
                [column, msgspec.to_builtins(tracker)] for column, tracker in sorted(self._trackers.items())
            ],
            "schedule": self._schedule.snapshot(),
        }

    @classmethod
    def restore(
        cls, plain: dict[str, Any], config: CycleConfig = TICKS, siblings: Ints | None = None
    ) -> "CycleBank":
        """Return the bank that wrote ``plain``. Raises ``ValueError`` for one of another version or shape."""
        check_version(plain, SNAPSHOT_VERSION, "cycles")
        bank = cls(plain["n"], config, siblings)
        if plain["samples"] != config.samples:
            raise ValueError(f"snapshot of cycles: {plain['samples']} samples, not {config.samples}")
        bank._last_ms = plain["last_ms"]
        bank._other_ms, bank._agreed = plain["other"]
        bank._since_ms = np.array(plain["since_ms"], np.int64)
        bank._ring.restore(plain["ring"])
        bank._locks.restore(plain["locks"])
        bank._schedule.restore(plain["schedule"])
        for column, tracker in plain["trackers"]:
            bank._trackers[column] = msgspec.convert(tracker, CycleTracker)
            bank._told[column] = bank._trackers[column].has_told
        bank._short[plain["short"]] = True
        bank._doubted[plain["doubted"]] = True
        return bank
