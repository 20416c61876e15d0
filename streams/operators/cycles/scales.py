"""Finds the cycles of many series on several time scales, from a tenth of a second to a day.

Beside the ticks themselves, means over 10 s, 1 min and 10 min are evaluated, each scale in a window of its
own and the more rarely the slower it is, and the driver's samples between the ticks. What they say of a
series is combined into one answer.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from dutycycle.contract.records.derived import CycleMetric
from streams.operators.columns.arrays import BEFORE_MS, Bools, Floats, Ints, check_version, remap
from streams.operators.columns.state import SeriesState, array
from streams.operators.cycles.bank import TICKS, CycleBank, CycleConfig, LockedCycles
from streams.operators.cycles.bursts import SLOT_MS, Burst, BurstBank
from streams.operators.cycles.combine import ScaleResult, combined
from streams.operators.cycles.locks import DRIFT
from streams.operators.cycles.result import near, same, sharper
from streams.operators.cycles.ring import LOGARITHMS, means_by_slot
from streams.operators.cycles.tracker import QUIET_MS

SNAPSHOT_VERSION = 6
_SCALES = (
    CycleConfig(interval_ms=10_000, samples=400, least=18, early=False, store=LOGARITHMS),
    CycleConfig(interval_ms=60_000, samples=400, least=20, early=False, store=LOGARITHMS),
    CycleConfig(interval_ms=600_000, samples=480, least=12, early=False, store=LOGARITHMS),
)
"""Means over these intervals. Each leaves to the finer ones what these can see. They have to be as sure as
for a part of a window of ticks: what they find has lasted for few periods, and stays for long."""
EVERY = 10
"""Samples of a scale after which it is evaluated again."""


class _Scale(SeriesState):
    """Holds one scale's window, and what it is fed: the mean of each of n series over each interval of
    ``config``, the first of which begins just before the first tick."""

    _sums: Floats = array(2, "n")

    def __init__(self, config: CycleConfig, n: int) -> None:
        super().__init__(n)
        self._config = config
        self.bank = CycleBank(n, config)
        self._first_ms = self._slot = self._last_ms = -1
        self._fresh = 0

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        super().resize(keep)
        self.bank.resize(keep)

    def extend(self, times: Ints, rows: Floats) -> tuple[Ints, Floats]:
        """Take ticks or a finer scale's means, shape (ticks, n), NaN is absent. The time of each interval
        that has ended with them, whole intervals after the first tick, and its means, NaN where nothing was
        measured."""
        ended, means = np.empty(times.size + 1, np.int64), np.empty(rows.shape)
        ended[0] = self._slot
        if self._slot < 0:
            self._first_ms = int(times[0])
        slots = (times - self._first_ms + BEFORE_MS) // self._config.interval_ms
        count = means_by_slot(slots, rows, self._sums, ended, means)
        self._slot = int(ended[count])
        times, means = ended[:count] * self._config.interval_ms + self._first_ms, means[:count]
        if count:
            self._last_ms = int(times[-1])
            self.bank.extend(times, means)
            self._fresh += count
        return times, means

    def changes(self) -> list[int]:
        """Return the columns whose cycle changed, if it is time to evaluate."""
        if self._fresh < EVERY:
            return []
        self._fresh = 0
        return [column for column, _ in self.bank.changes(self._last_ms)]

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        times = [self._first_ms, self._slot, self._fresh, self._last_ms]
        return {**super().snapshot(), "bank": self.bank.snapshot(), "times": times}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same shape."""
        super().restore(plain)
        self.bank = CycleBank.restore(plain["bank"], self._config)
        self._first_ms, self._slot, self._fresh, self._last_ms = plain["times"]


class CycleScales:
    """Keeps the windows of n series on all scales, and what was published of them. ``ticks``: of the
    finest."""

    def __init__(self, n: int, ticks: CycleConfig = TICKS, witnesses: Ints | None = None) -> None:
        self._witnesses: Ints = np.arange(n) if witnesses is None else witnesses
        self._ticks = CycleBank(n, ticks, self._witnesses)
        self._bursts = BurstBank()
        enough = ticks.sure_of_part
        scales = [replace(scale, sure=enough, sure_of_part=enough, misses=ticks.misses) for scale in _SCALES]
        self._scales = [_Scale(config, n) for config in scales]
        self._published: list[CycleMetric | None] = [None] * n
        self._published_ms: Ints = np.zeros(n, np.int64)
        self._delayed: set[int] = set()
        """Columns with a small change that came too soon after the last."""

    def resize(self, keep: Ints, witnesses: Ints | None = None) -> None:
        """Rearrange the columns: column j goes on from old column ``keep[j]``, -1 is a new series.

        ``witnesses``: of each column the one whose bursts tell what is an alias, if it has no bursts itself.
        """
        self._witnesses = np.arange(keep.size) if witnesses is None else witnesses
        self._ticks.resize(keep, self._witnesses)
        self._bursts.resize(keep)
        for scale in self._scales:
            scale.resize(keep)
        self._published = [self._published[old] if old >= 0 else None for old in keep.tolist()]
        self._published_ms = remap(self._published_ms, keep, 0)
        self._delayed = {new for new, old in enumerate(keep.tolist()) if old in self._delayed}

    def extend(
        self,
        times: Ints,
        rows: Floats,
        interval_ms: int | None = None,
        bursts: Sequence[tuple[int, Sequence[tuple[int, Burst]]]] = (),
    ) -> None:
        """Take ticks in the order of their ``times``, shape (ticks,), all later than the last; ``rows`` has
        shape (ticks, n), NaN is absent.

        ``interval_ms`` is the nominal time between ticks. ``bursts``: ticks by their times, each with the
        columns that have the driver's samples.
        """
        for ts_ms, of_tick in bursts:
            self._bursts.update(ts_ms, of_tick)
        self._ticks.extend(times, rows, interval_ms)
        done = times, rows
        for scale in self._scales:
            done = scale.extend(*done)
            if not len(done[0]):
                break

    def published(self, column: int) -> CycleMetric | None:
        """Return what was published of a column last; None if it never had a cycle."""
        return self._published[column]

    def locked(self, among: Bools | None = None) -> LockedCycles:
        """Return the cycles that go on now in the ticks themselves, by column; ``among``: only of these."""
        return self._ticks.locked(among)

    def changes(self, ts_ms: int) -> list[tuple[int, CycleMetric]]:
        """Return the columns whose cycles changed since the last call, as of the last tick's time."""
        changed = {column for column, _ in self._ticks.changes(ts_ms)}
        self._bursts.wake(ts_ms, sorted(changed))
        quick = self._bursts.changes(ts_ms)
        if quick:
            changed.update(quick, np.isin(self._witnesses, quick).nonzero()[0].tolist())
        for scale in self._scales:
            if scale.bank.interval_ms > self._ticks.interval_ms:
                changed.update(scale.changes())
        changed |= self._delayed
        self._delayed = set()
        return [(column, change) for column in sorted(changed) if (change := self._change(ts_ms, column))]

    def _change(self, ts_ms: int, column: int) -> CycleMetric | None:
        """Return what to publish of a column; None if it is what was published, or too soon for a small
        change."""
        before, before_ms = self._published[column], self._published_ms[column]
        banks, quick = [self._ticks, *(scale.bank for scale in self._scales)], self._bursts.result(column)
        results = [
            ScaleResult(0.0, SLOT_MS / 1000, quick),
            *(ScaleResult(bank.interval_ms / 1000, bank.window_s, bank.current(column)) for bank in banks),
        ]
        other, witness = int(self._witnesses[column]), None
        if quick is None and other not in (-1, column):
            witness = ScaleResult(0.0, SLOT_MS / 1000, self._bursts.result(other))
        now = combined(results, before, witness)
        if before is None:
            if not now.cyclic:
                return None
        elif same(now, before) and not sharper(now, before, before_ms):
            return None
        elif (  # a little faster or slower, and soon after that was said
            now.period_s is not None
            and before.period_s is not None
            and near(now.period_s, before.period_s, DRIFT)
            and ts_ms - before_ms < QUIET_MS
        ):
            self._delayed.add(column)
            return None
        self._published[column], self._published_ms[column] = now, ts_ms
        return now

    def snapshot(self) -> dict[str, Any]:
        """Return plain data from which ``restore`` goes on bit for bit."""
        return {
            "v": SNAPSHOT_VERSION,
            "ticks": self._ticks.snapshot(),
            "bursts": self._bursts.snapshot(),
            "scales": [scale.snapshot() for scale in self._scales],
            "published": msgspec.to_builtins(self._published),
            "published_ms": self._published_ms.tolist(),
            "delayed": sorted(self._delayed),
        }

    @classmethod
    def restore(
        cls, plain: dict[str, Any], ticks: CycleConfig = TICKS, witnesses: Ints | None = None
    ) -> "CycleScales":
        """Return the scales that wrote ``plain``. Raises ``ValueError`` for another version or shape."""
        check_version(plain, SNAPSHOT_VERSION, "cycles")
        scales = cls(plain["ticks"]["n"], ticks, witnesses)
        scales._ticks = CycleBank.restore(plain["ticks"], ticks, witnesses)
        scales._bursts.restore(plain["bursts"])
        for scale, of_scale in zip(scales._scales, plain["scales"], strict=True):
            scale.restore(of_scale)
        scales._published = msgspec.convert(plain["published"], list[CycleMetric | None])
        scales._published_ms = np.array(plain["published_ms"], np.int64)
        scales._delayed = set(plain["delayed"])
        return scales
