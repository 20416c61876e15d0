"""The newest samples of n series on a regular grid.

Windows are nearly all of a node's state, which goes through Kafka every few seconds. So samples are kept in
four bytes each, or in two where the scale is slow.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.compiled import entry
from streams.operators.columns.arrays import Floats, Ints, pack, remap, unpack

LARGEST = 3e38
"""The largest value that a float32 holds; larger ones count as absent."""
BRIDGED = 5
"""Up to so many missing samples in a row are bridged by a line; a longer gap begins a series anew."""

STEPS_PER_OCTAVE = 900
SMALLEST = 1e-3
"""Of a logarithm's value 0, in the metric's unit: smaller differences from 0 are lost."""
ABSENT = 65_535
"""The code of what was not measured."""

Samples = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Exact:
    """Samples as float32, NaN for absent."""

    dtype: str = "f4"
    absent: float = np.nan
    flat: float = 1e-6
    """A spread below this share of the mean is the storage's rounding."""

    def encoded(self, values: Floats) -> Samples:
        """How ``values`` are kept; writing them into a ring rounds them to float32."""
        return values

    def decoded(self, kept: Samples) -> Floats:
        """The values, rounded to float32."""
        return np.ascontiguousarray(kept, np.float64)


@dataclass(frozen=True, slots=True)
class Logarithms:
    """Samples from 0 to 6e18 as 16-bit logarithms: two neighbouring codes are 0.08 % apart.

    For means over longer intervals, of which smaller variations are of no interest.
    """

    dtype: str = "u2"
    absent: float = ABSENT
    flat: float = 1e-3

    def encoded(self, values: Floats) -> Samples:
        """The codes of ``values``; negative ones count as 0."""
        codes = np.rint(STEPS_PER_OCTAVE * np.log2(np.maximum(values, 0.0) / SMALLEST + 1))
        return np.where(np.isnan(codes), ABSENT, np.minimum(codes, ABSENT - 1)).astype(np.uint16)

    def decoded(self, kept: Samples) -> Floats:
        """The values of the codes."""
        return np.asarray(_VALUES[kept])


def _values() -> Floats:
    values = SMALLEST * (np.exp2(np.arange(ABSENT + 1) / STEPS_PER_OCTAVE) - 1)
    values[ABSENT] = np.nan
    return np.asarray(values)


_VALUES = _values()
Store = Exact | Logarithms
EXACT, LOGARITHMS = Exact(), Logarithms()


@entry("void(float64[::1], float64[::1], float64[::1])")
def tally(values: Floats, sums: Floats, counts: Floats) -> None:
    """Add what is present of ``values`` to ``sums`` and ``counts``."""
    for place in range(values.size):
        if abs(values[place]) < LARGEST:
            sums[place] += values[place]
            counts[place] += 1


@entry("float64[::1](float64[::1], float64[::1])")
def means_of(sums: Floats, counts: Floats) -> Floats:
    """The means, NaN where nothing was counted."""
    means = np.empty(sums.size)
    for place in range(sums.size):
        means[place] = sums[place] / counts[place] if counts[place] > 0 else np.nan
    return means


@entry("UniTuple(int64, 2)(float64[::1], int64, int64, float64[::1])")
def _unrolled(kept: Floats, oldest: int, skip: int, window: Floats) -> tuple[int, int]:
    """Write the samples of a ring, which begins at ``oldest``, into ``window`` in order, without the first
    ``skip``; begin and end of what follows the last long gap, where short gaps are filled in by lines."""
    size = kept.size
    begin, end = size, 0
    for at in range(size - 1, skip - 1, -1):
        value = kept[oldest + at if oldest + at < size else oldest + at - size]
        if np.isnan(value):
            if begin - at > BRIDGED:
                break
            continue
        if end == 0:
            end = at + 1
        else:
            for missing in range(at + 1, begin):
                window[missing] = value + (window[begin] - value) / (begin - at) * (missing - at)
        window[at] = value
        begin = at
    return (begin, end) if end else (0, 0)


class Ring:
    """One row per grid slot, one column per series; NaN where nothing was measured. Shape (samples, n).

    A slot begins half an interval before the first tick's moment, so that a jittering tick stays in its
    own. Several ticks in one slot are averaged, so the grid may be coarser than the ticks.
    """

    def __init__(self, samples: int, interval_ms: int, n: int, store: Store = EXACT) -> None:
        self._samples = samples
        self._store = store
        self.n = n
        self.begin(interval_ms)

    def begin(self, interval_ms: int) -> None:
        """Forget everything, and go on with a grid of ``interval_ms``."""
        self.interval_ms = interval_ms
        self._rows = np.full((self._samples, self.n), self._store.absent, self._store.dtype)
        self._anchor_ms = -1
        self._slot = -1
        self._sum, self._count = np.zeros(self.n), np.zeros(self.n)

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self.n = keep.size
        self._rows = remap(self._rows, keep, self._store.absent)
        self._sum, self._count = remap(self._sum, keep, 0.0), remap(self._count, keep, 0.0)

    def add(self, ts_ms: int, values: Floats) -> None:
        """Take a tick that is not older than the last; NaN is absent."""
        if self._slot < 0:
            self._anchor_ms = ts_ms - self.interval_ms // 2
        slot = (ts_ms - self._anchor_ms) // self.interval_ms
        if slot != self._slot:
            self._open(slot)
        tally(np.ascontiguousarray(values), self._sum, self._count)
        self._rows[slot % self._samples] = self._store.encoded(means_of(self._sum, self._count))

    def _open(self, slot: int) -> None:
        first = max(self._slot + 1, slot - self._samples + 1)
        for passed in range(first, slot + 1):
            self._rows[passed % self._samples] = self._store.absent
        self._slot = slot
        self._sum[:] = self._count[:] = 0.0

    def recent(self, count: int) -> tuple[Floats, Floats]:
        """Mean and spread of each column's newest ``count`` samples, NaN where one of them is absent."""
        order = np.arange(self._slot + 1 - count, self._slot + 1) % self._samples
        newest = self._store.decoded(self._rows[order])
        return newest.mean(axis=0), newest.max(axis=0) - newest.min(axis=0)

    def start_ms(self, length: int) -> int:
        """The moment of the oldest of the newest ``length`` samples."""
        return self._anchor_ms + (self._slot - length + 1) * self.interval_ms + self.interval_ms // 2

    def newest(self, columns: Ints, since_ms: Ints) -> list[Floats]:
        """The usable samples of each column, oldest first, none from before ``since_ms``, up to now.

        Empty for a series that is absent now.
        """
        skip = np.clip((since_ms - self.start_ms(self._samples)) // self.interval_ms, 0, self._samples)
        windows, oldest = np.empty((columns.size, self._samples)), (self._slot + 1) % self._samples
        return [
            _filled(self._store.decoded(self._rows[:, column]), oldest, first, window)
            for column, first, window in zip(columns.tolist(), skip.tolist(), windows, strict=True)
        ]

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "interval_ms": self.interval_ms, "anchor_ms": self._anchor_ms, "slot": self._slot,
            "rows": pack(self._rows), "sum": pack(self._sum), "count": pack(self._count),
        }  # fmt: skip

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same shape."""
        self.interval_ms, self._anchor_ms = plain["interval_ms"], plain["anchor_ms"]
        self._slot = plain["slot"]
        self._rows = unpack(plain["rows"], self._store.dtype, self._rows.shape)
        self._sum = unpack(plain["sum"], "f8", self._sum.shape)
        self._count = unpack(plain["count"], "f8", self._count.shape)


def bridged(row: Floats) -> Floats:
    """What follows the last long gap of ``row``, short gaps filled in by lines; empty if it ends in one."""
    return _filled(row, 0, 0, np.empty(row.size))


def _filled(kept: Floats, oldest: int, skip: int, window: Floats) -> Floats:
    begin, end = _unrolled(kept, oldest, skip, window)
    return window[begin:end]
