"""The cycles of many series on several time scales, from a tenth of a second to a day.

Beside the ticks themselves, means over 10 s, 1 min and 10 min are watched, each scale in a window of its
own and the more rarely the slower it is, and the driver's samples between the ticks. What they say of a
series is combined into one answer.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from streams.operators.columns.arrays import Floats, Ints, remap
from streams.operators.cycles.bank import CycleBank
from streams.operators.cycles.bursts import SLOT_MS, Burst, BurstBank
from streams.operators.cycles.combine import Heard, combined
from streams.operators.cycles.config import CycleConfig, CycleResult
from streams.operators.cycles.means import Means
from streams.operators.cycles.store import LOGARITHMS
from streams.operators.cycles.tracker import (
    DRIFT,
    QUIET_MS,
    near,
    result_from_plain,
    result_to_plain,
    same,
    sharper,
)

SNAPSHOT_VERSION = 2
SCALES = (
    CycleConfig(interval_ms=10_000, samples=400, least=18, early=False, store=LOGARITHMS),
    CycleConfig(interval_ms=60_000, samples=400, least=20, early=False, store=LOGARITHMS),
    CycleConfig(interval_ms=600_000, samples=480, least=12, early=False, store=LOGARITHMS),
)
"""Means over these intervals. Each leaves to the finer ones what these can see."""
EVERY = 10
"""Samples of a scale after which it is looked at again."""


class _Scale:
    """One scale's window, and the means that it is fed."""

    def __init__(self, config: CycleConfig, n: int) -> None:
        self.config = config
        self.bank = CycleBank(config, n)
        self.means = Means(config.interval_ms, n)
        self.fresh = 0
        self.last_ms = -1

    def add(self, ts_ms: int, values: Floats) -> tuple[int, Floats] | None:
        """Take a tick or a finer scale's means; the means of an interval, when it has ended."""
        done = self.means.add(ts_ms, values)
        if done is not None:
            self.last_ms = done[0]
            self.bank.update(*done)
            self.fresh += 1
        return done

    def changes(self) -> list[int]:
        """The columns whose cycle changed, if it is time to look."""
        if self.fresh < EVERY:
            return []
        self.fresh = 0
        return [column for column, _ in self.bank.changes(self.last_ms)]


class CycleScales:
    """The windows of n series on all scales, and what was told about them."""

    def __init__(self, n: int = 0) -> None:
        self._ticks = CycleBank(None, n)
        self._bursts = BurstBank()
        self._scales = [_Scale(config, n) for config in SCALES]
        self._told: list[CycleResult | None] = [None] * n
        self._told_ms: Ints = np.zeros(n, np.int64)
        self._waiting: set[int] = set()

    @property
    def n(self) -> int:
        """How many columns there are."""
        return self._ticks.n

    def resize(self, keep: Ints, n: int) -> None:
        """From now on there are ``n`` columns: column j goes on from old column ``keep[j]``, -1 is new."""
        self._ticks.resize(keep, n)
        self._bursts.resize(keep)
        for scale in self._scales:
            scale.bank.resize(keep, n)
            scale.means.resize(keep)
        self._told = [self._told[old] if old >= 0 else None for old in keep.tolist()]
        self._told_ms = remap(self._told_ms, keep, 0)
        self._waiting = {new for new, old in enumerate(keep.tolist()) if old in self._waiting}

    def update(
        self,
        ts_ms: int,
        values: Floats,
        interval_ms: int | None = None,
        bursts: Sequence[tuple[int, Burst]] = (),
    ) -> None:
        """Take the tick at ``ts_ms`` (later than the last). ``values`` has shape (n,); NaN is absent.

        ``interval_ms`` is the nominal time between ticks. ``bursts`` are columns with the driver's
        samples, pairs of (milliseconds from ``ts_ms``, value).
        """
        self._ticks.update(ts_ms, values, interval_ms)
        self._bursts.update(ts_ms, bursts)
        done = ts_ms, values
        for scale in self._scales:
            means = scale.add(*done)
            if means is None:
                break
            done = means

    def current(self, column: int) -> CycleResult:
        """What was told of a column last, or that it has no cycle."""
        return self._told[column] or CycleResult(cyclic=False)

    def locked(self) -> list[tuple[int, float, Floats, int]]:
        """What ``CycleBank.locked`` says of the cycles that the ticks themselves have."""
        return self._ticks.locked()

    def changes(self, ts_ms: int) -> list[tuple[int, CycleResult]]:
        """The columns whose cycles changed since the last call, as of the last tick's time."""
        changed = {column for column, _ in self._ticks.changes(ts_ms)}
        self._bursts.wake(ts_ms, sorted(changed))
        changed.update(self._bursts.changes(ts_ms))
        for scale in self._scales:
            if scale.config.interval_ms > self._ticks.interval_ms:
                changed.update(scale.changes())
        changed |= self._waiting
        self._waiting = set()
        told = [(column, self._news(ts_ms, column)) for column in sorted(changed)]
        return [(column, result) for column, result in told if result is not None]

    def _news(self, ts_ms: int, column: int) -> CycleResult | None:
        """What to tell of a column; None if it is what was told, or too soon for a trifle."""
        before = self._told[column]
        now = combined(self._heard(column), before)
        if before is None:
            if not now.cyclic:
                return None
        elif same(now, before) and not sharper(now, before, self._told_ms[column]):
            return None
        if before is not None and _goes_on(now, before) and ts_ms - self._told_ms[column] < QUIET_MS:
            self._waiting.add(column)
            return None
        self._told[column], self._told_ms[column] = now, ts_ms
        return now

    def _heard(self, column: int) -> list[Heard]:
        bursts = Heard(0.0, SLOT_MS / 1000, self._bursts.result(column))
        banks = [self._ticks, *(scale.bank for scale in self._scales)]
        return [bursts, *(Heard(bank.interval_s, bank.window_s, bank.current(column)) for bank in banks)]

    def snapshot(self) -> dict[str, Any]:
        """Plain data from which ``restore`` goes on bit for bit."""
        return {
            "v": SNAPSHOT_VERSION,
            "ticks": self._ticks.snapshot(),
            "bursts": self._bursts.snapshot(),
            "scales": [
                [scale.bank.snapshot(), scale.means.snapshot(), scale.fresh, scale.last_ms]
                for scale in self._scales
            ],
            "told": [result_to_plain(one) for one in self._told],
            "told_ms": self._told_ms.tolist(),
            "waiting": sorted(self._waiting),
        }

    @classmethod
    def restore(cls, plain: dict[str, Any]) -> "CycleScales":
        """The scales that wrote ``plain``, or that go on from the ticks alone, which version 1 knew.

        Raises ``ValueError`` for another version or shape.
        """
        if plain.get("v") == 1:
            scales = cls(plain["n"])
            scales._ticks = CycleBank.restore(None, plain)
            scales._told = [scales._ticks.told(column) for column in range(scales.n)]
            return scales
        if plain.get("v") != SNAPSHOT_VERSION:
            raise ValueError(f"snapshot of cycles: version {plain.get('v')!r}, this program reads 1 and 2")
        scales = cls(plain["ticks"]["n"])
        scales._ticks = CycleBank.restore(None, plain["ticks"])
        scales._bursts.restore(plain["bursts"])
        for scale, (bank, means, fresh, last_ms) in zip(scales._scales, plain["scales"], strict=True):
            scale.bank = CycleBank.restore(scale.config, bank)
            scale.means.restore(means)
            scale.fresh, scale.last_ms = fresh, last_ms
        scales._told = [result_from_plain(one) for one in plain["told"]]
        scales._told_ms = np.array(plain["told_ms"], np.int64)
        scales._waiting = set(plain["waiting"])
        return scales


def _goes_on(now: CycleResult, before: CycleResult) -> bool:
    """Whether the main cycle is what it was."""
    if now.period_s is None or before.period_s is None:
        return False
    return near(now.period_s, before.period_s, DRIFT)
