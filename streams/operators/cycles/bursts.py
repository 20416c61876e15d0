"""Finds cycles below a few seconds, from the driver's own samples between the ticks.

A tick a second cannot see a training step of half a second, or sees a slow cycle that is none. The
driver's samples can. They are many, so each series has sampling slots: ``SLOT_MS`` of samples are kept, then
none for a while, which is longer where a cycle goes on.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from dutycycle.contract.records.derived import CycleMetric, OtherCycle
from streams.operators.columns.arrays import Floats, Ints, pack, unpack
from streams.operators.cycles.detect.window import Detection, find_cycles
from streams.operators.cycles.result import NO_CYCLE, multiple, near
from streams.operators.cycles.ring import bridged
from streams.operators.cycles.tracker import CycleTracker

SLOT_MS = 19_000
"""Length of a sampling slot; evaluated every ten seconds, that makes two evaluations."""
REST_MS, LONG_REST_MS = 20_000, 100_000
"""Pause between two slots where there is no cycle, and where one goes on."""
FINEST_MS, COARSEST_MS = 25, 400
"""Bounds of the grid; samples that are further apart say no more than the ticks."""
MOST, MOST_TICKS = 200, 60
"""Samples of a tick, and ticks of a slot, that are kept."""
LATEST_MS, LARGEST = 65_536, 1e30
"""Above this nothing is kept, neither moments nor values."""
STILL = 1.0
"""A series that spans no more begins its next slot at once."""
SURE = 0.95
"""Confidence that a cycle needs, if the slot before did not show the same."""
FEWEST, FEW = 5.0, 10.0
"""Periods that it needs in this case: steps vary where a run begins. Of fewer than the second a slot is
hardly sure: it is enough if two slots agree."""
LONGEST_S = 4.0
"""Slower cycles are seen in the ticks, and better."""
_DROPPED = 2
"""Slots in a row without the cycle after which it is lost."""

Burst = Floats
"""Pairs of (milliseconds from the tick's time, value), shape (samples, 2)."""


class _BurstWindow:
    """Collects the samples of one series in its sampling slot."""

    def __init__(self, from_ms: int) -> None:
        self.tracker = CycleTracker()
        self.from_ms = from_ms
        """Begin of the slot; in the future while it pauses."""
        self.sampled = False
        """Whether the last slot had enough samples."""
        self.seen_s: float | None = None
        """The period that the last slot showed, sure or not."""
        self.pairs: list[Floats] = []
        """Of each tick, moments (ms since ``from_ms``) and values, shape (samples, 2)."""

    def rest(self, until_ms: int) -> None:
        """Drop the samples; the next slot begins at ``until_ms``."""
        self.from_ms, self.pairs = until_ms, []

    def add(self, ts_ms: int, burst: Burst) -> None:
        """Keep the samples of a tick."""
        if len(self.pairs) < MOST_TICKS:
            pairs = burst[-MOST:].copy()
            pairs[:, 0] += ts_ms - self.from_ms
            self.pairs.append(pairs)

    def samples(self) -> tuple[Ints, Floats]:
        """Return moments in milliseconds, in order, and values, as they are kept in a snapshot."""
        pairs = np.concatenate(self.pairs) if self.pairs else np.zeros((0, 2))
        good = (pairs[:, 0] >= 0) & (pairs[:, 0] < LATEST_MS) & (np.abs(pairs[:, 1]) < LARGEST)
        pairs = pairs[good]
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        return pairs[:, 0].astype(np.int64), pairs[:, 1].astype(np.float32).astype(np.float64)

    def grid(self) -> tuple[int, Floats]:
        """Return the grid's interval in milliseconds (0: too few samples), and the samples on it."""
        at, values = self.samples()
        apart = np.diff(at)
        apart = apart[apart > 0]
        spacing = float(np.median(apart)) if apart.size else np.inf
        if spacing > COARSEST_MS:
            return 0, values[:0]
        grid = max(FINEST_MS, round(spacing / 5) * 5)
        slot = (at - at[0]) // grid
        count = np.bincount(slot)
        means = np.full(count.size, np.nan)
        np.divide(np.bincount(slot, values), count, out=means, where=count > 0)
        return grid, bridged(means)

    def close(self, ts_ms: int, detection: Detection | None, grid_ms: int) -> bool:
        """End the slot with what was found on its grid, and pause; whether that changes what is known of the
        series."""
        result, sampled, quick = NO_CYCLE, bool(grid_ms), []
        if detection is not None and detection.goes_on:  # and is too quick for the ticks
            quick = [cycle for cycle in detection.cycles if cycle.period * grid_ms / 1000 <= LONGEST_S]
        if detection is not None and quick:
            main, *rest = quick
            rest = [cycle for cycle in rest if not multiple(cycle.period, main.period)]
            others = tuple(
                OtherCycle(period_s=o.period * grid_ms / 1000, confidence=o.confidence) for o in rest
            )
            result = CycleMetric(
                cyclic=True,
                period_s=main.period * grid_ms / 1000,
                confidence=main.confidence,
                since_ms=ts_ms - (detection.samples.size + detection.idle) * grid_ms,
                others=others or None,
            )
        before_s, self.seen_s = self.seen_s, result.period_s
        period_s, known_s = result.period_s or np.inf, (before_s, self.tracker.period_s)
        again = FEW * period_s >= SLOT_MS / 1000 and any(
            known is not None and near(period_s, known) for known in known_s
        )
        sure = (result.confidence or 0.0) >= SURE and FEWEST * period_s <= SLOT_MS / 1000
        if not (again or sure):
            result = NO_CYCLE
        was_s, now_s = self.tracker.period_s, result.period_s
        doubted = was_s is not None and (now_s is None or not near(now_s, was_s))
        changed = self.tracker.update(ts_ms, result, _DROPPED) is not None or sampled != self.sampled
        self.sampled = sampled
        values = self.samples()[1]
        still = values.size > 0 and values.max() - values.min() <= STILL
        pause_ms = REST_MS if now_s is None else LONG_REST_MS
        self.rest(ts_ms if doubted or still else ts_ms + pause_ms)
        return changed


class BurstBank:
    """Keeps the driver's samples of n series, most of which have none, and their cycles."""

    def __init__(self) -> None:
        self._windows: dict[int, _BurstWindow] = {}

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        places = enumerate(keep.tolist())
        self._windows = {new: self._windows[old] for new, old in places if old in self._windows}

    def update(self, ts_ms: int, bursts: Sequence[tuple[int, Burst]]) -> None:
        """Take the bursts of the tick at ``ts_ms``: columns, and what came of each."""
        for column, burst in bursts:
            window = self._windows.get(column)
            if window is None:
                window = self._windows[column] = _BurstWindow(ts_ms)
            if ts_ms >= window.from_ms:
                window.add(ts_ms, burst)

    def wake(self, ts_ms: int, columns: Sequence[int]) -> None:
        """End the pause of these, in which something changed."""
        for column in columns:
            window = self._windows.get(column)
            if window is not None and window.from_ms > ts_ms:
                window.rest(ts_ms)

    def result(self, column: int) -> CycleMetric | None:
        """Return the cycle that is there now; None if there are too few samples to know."""
        window = self._windows.get(column)
        known = window is not None and (window.tracker.period_s is not None or window.sampled)
        return window.tracker.current if window is not None and known else None

    def changes(self, ts_ms: int) -> list[int]:
        """Evaluate the slots that are over; the columns whose cycle changed."""
        ready = [c for c, window in sorted(self._windows.items()) if ts_ms - window.from_ms >= SLOT_MS]
        if not ready:
            return []
        grids = [self._windows[column].grid() for column in ready]
        detections = find_cycles([samples for _, samples in grids])
        return [
            column
            for column, (grid, _), detection in zip(ready, grids, detections, strict=True)
            if self._windows[column].close(ts_ms, detection, grid)
        ]

    def snapshot(self) -> list[list[Any]]:
        """Return plain data."""
        plain: list[list[Any]] = []
        for column, kept in sorted(self._windows.items()):
            at, values = kept.samples()
            packed = pack(at.astype(np.uint16)), pack(values.astype(np.float32))
            window = column, msgspec.to_builtins(kept.tracker), kept.from_ms, kept.sampled, kept.seen_s
            plain.append([*window, len(kept.pairs), at.size, *packed])
        return plain

    def restore(self, plain: list[list[Any]]) -> None:
        """Go on from a snapshot."""
        for column, tracker, from_ms, sampled, seen_s, ticks, size, at, values in plain:
            window = self._windows[column] = _BurstWindow(from_ms)
            window.tracker = msgspec.convert(tracker, CycleTracker)
            window.sampled, window.seen_s = sampled, seen_s
            pairs = np.stack(
                (unpack(at, "u2", (size,)), unpack(values, "f4", (size,))), axis=1, dtype=np.float64
            )
            window.pairs = [pairs, *(pairs[:0] for _ in range(ticks - 1))] if ticks else []
