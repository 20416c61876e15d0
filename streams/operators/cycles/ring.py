"""Keeps the newest samples of n series on a regular grid.

Windows are nearly all of a node's state, which goes through Kafka every few seconds. So samples are kept in
four bytes each, or in two where the scale is slow.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats, Ints, pack, remap, unpack
from streams.operators.cycles.detect.window import Windows

LARGEST = 3e38
"""The largest value that a float32 holds; larger ones count as absent."""
BRIDGED = 5
"""Up to so many missing samples in a row are bridged by a line; a longer gap begins a series anew."""

STEPS_PER_OCTAVE = 900
SMALLEST = 1e-3
"""Of a logarithm's value 0, in the metric's unit: smaller differences from 0 are lost."""
ABSENT = 65_535
"""The code of what was not measured."""

_ROOM = 20
"""Samples by which a ring grows until it has all: nobody sees ten minutes in the first one."""

_ANCHOR, _SLOT, _INTERVAL = range(3)
"""Of ``place``: when the first slot began, the newest slot, and how long each is (ms)."""

Samples = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Store:
    """Says how samples are kept. What spreads by less than the share ``flat`` of its mean is only
    rounding."""

    dtype: str
    absent: float
    flat: float
    values: Floats
    """The value of each code; empty if values are kept as they are."""


_VALUES = SMALLEST * (np.exp2(np.arange(ABSENT + 1) / STEPS_PER_OCTAVE) - 1)
_VALUES[ABSENT] = np.nan

EXACT = Store("f4", np.nan, 1e-6, np.empty(0))
"""As float32, NaN for absent."""
LOGARITHMS = Store("u2", ABSENT, 1e-3, _VALUES)
"""From 0 to 8e18 as 16-bit logarithms: two neighbouring codes are 0.08 % apart. For means over longer
intervals, of which smaller variations are of no interest. Negative values count as 0."""


@kernel
def _add(row: Floats, sums: Floats) -> None:
    """Add what is present of a row to ``sums`` (2, n): the sum, and how many."""
    for place in range(row.size):
        if abs(row[place]) < LARGEST:
            sums[0, place] += row[place]
            sums[1, place] += 1


@kernel
def _means(sums: Floats, means: Floats) -> None:
    """Write the means, NaN where nothing was counted."""
    for place in range(means.size):
        means[place] = sums[0, place] / sums[1, place] if sums[1, place] > 0 else np.nan


@entry("int64(int64[::1], float64[:, ::1], float64[:, ::1], int64[::1], float64[:, ::1])")
def means_by_slot(slots: Ints, rows: Floats, sums: Floats, ended: Ints, means: Floats) -> int:
    """Add ``rows`` (ticks, n), which are in these slots, to the ``sums`` of the newest slot.

    That is ``ended[0]``. The slots that end are written there, the newest after them, and their ``means``;
    returns how many there are.
    """
    count = 0
    for tick in range(slots.size):
        if slots[tick] != ended[count]:
            if ended[count] >= 0:
                _means(sums, means[count])
                count += 1
            ended[count] = slots[tick]
            sums[:] = 0.0
        _add(rows[tick], sums)
    return count


@entry(
    "void(int64[::1], float64[:, ::1], float32[:, ::1], float64[::1], int64[::1], float64[:, ::1])",
    "void(int64[::1], float64[:, ::1], uint16[:, ::1], float64[::1], int64[::1], float64[:, ::1])",
)
def _extend(times: Ints, rows: Floats, kept: Samples, values: Floats, place: Ints, sums: Floats) -> None:
    """Take ticks into the slots that they fall into; ``sums`` are those of the newest slot."""
    samples, absent, means = kept.shape[1], ABSENT if values.size else np.nan, np.empty(len(kept))
    for tick in range(times.size):
        if place[_SLOT] < 0:
            place[_ANCHOR] = times[tick] - place[_INTERVAL] // 2
        slot = (times[tick] - place[_ANCHOR]) // place[_INTERVAL]
        if slot != place[_SLOT]:
            for passed in range(max(place[_SLOT] + 1, slot - samples + 1), slot):
                kept[:, passed % samples] = absent
            place[_SLOT] = slot
            sums[:] = 0.0
        _add(rows[tick], sums)
        at = slot % samples
        _means(sums, means)
        for series in range(len(kept)):
            code = mean = means[series]
            if values.size:
                logarithm = np.rint(STEPS_PER_OCTAVE * np.log2(max(mean, 0.0) / SMALLEST + 1))
                code = float(ABSENT) if np.isnan(mean) else min(logarithm, ABSENT - 1.0)
            kept[series, at] = code


@kernel
def _value(kept: float, values: Floats) -> float:
    return values[int(kept)] if values.size else float(kept)


@kernel
def _unrolled(kept: Samples, values: Floats, oldest: int, skip: int, window: Floats) -> tuple[int, int]:
    """Write the samples of a ring, which begins at ``oldest``, into ``window`` in order, without the first
    ``skip``; begin and end of what follows the last long gap, where short gaps are filled in by lines."""
    size = kept.size
    begin, end = size, 0
    for at in range(size - 1, skip - 1, -1):
        value = _value(kept[oldest + at if oldest + at < size else oldest + at - size], values)
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


@entry(
    "void(float32[:, ::1], float64[::1], int64, int64[::1], int64[::1], float64[:, ::1], int64[:, ::1])",
    "void(uint16[:, ::1], float64[::1], int64, int64[::1], int64[::1], float64[:, ::1], int64[:, ::1])",
)
def _windows(
    kept: Samples, values: Floats, slot: int, columns: Ints, skips: Ints, windows: Floats, bounds: Ints
) -> None:
    oldest = (slot + 1) % kept.shape[1]
    for row in range(columns.size):
        bounds[row, 0], bounds[row, 1] = _unrolled(
            kept[columns[row]], values, oldest, skips[row], windows[row]
        )


@entry("float64[::1](float64[::1])")
def bridged(row: Floats) -> Floats:
    """Return what follows the last long gap of ``row``, short gaps filled in by lines; empty if it ends in
    one."""
    window = np.empty(row.size)
    begin, end = _unrolled(row, row[:0], 0, 0, window)
    return window[begin:end]


class Ring:
    """Keeps one row per series, one column per grid slot; shape (n, samples).

    A slot begins half an interval before the first tick's moment, so that a jittering tick stays in its
    own. Several ticks in one slot are averaged, so the grid may be coarser than the ticks. What has not been
    reached yet has no room: how much there is follows from the newest slot.
    """

    def __init__(self, samples: int, interval_ms: int, n: int, store: Store = EXACT) -> None:
        self._samples = samples
        self._store = store
        self.n = n
        self.begin(interval_ms)

    def begin(self, interval_ms: int) -> None:
        """Forget everything, and go on with a grid of ``interval_ms``."""
        self.interval_ms = interval_ms
        """The time between samples."""
        self._place = np.array([-1, -1, interval_ms], np.int64)
        self._kept = self._absent(self._room(-1))
        self._sums = np.zeros((2, self.n))

    def _room(self, slot: int) -> int:
        """Return how many samples there is room for once this slot is reached."""
        return min((max(slot, 0) // _ROOM + 1) * _ROOM, self._samples)

    def _absent(self, samples: int) -> Samples:
        return np.full((self.n, samples), self._store.absent, self._store.dtype)

    @property
    def slot(self) -> int:
        """Return the newest slot; -1 before the first."""
        return int(self._place[_SLOT])

    def resize(self, keep: Ints) -> None:
        """Rearrange the series; -1 is a new one."""
        self.n = keep.size
        self._kept = np.ascontiguousarray(remap(self._kept.T, keep, self._store.absent).T)
        self._sums = remap(self._sums, keep, 0.0)

    def extend(self, times: Ints, rows: Floats) -> None:
        """Take ticks in the order of their ``times``, none older than the last; NaN is absent."""
        if (had := self._kept.shape[1]) < self._samples:
            begin_ms = self._place[_ANCHOR] if self.slot >= 0 else times[0] - self.interval_ms // 2
            room = self._room(int(times[-1] - begin_ms) // self.interval_ms)
            if room > had:  # it has not gone round yet
                before, self._kept = self._kept, self._absent(room)
                self._kept[:, :had] = before
        _extend(times, rows, self._kept, self._store.values, self._place, self._sums)

    def recent(self, count: int) -> Floats:
        """Return the newest ``count`` samples of each series, shape (n, count), NaN where absent."""
        slots = np.arange(self.slot + 1 - count, self.slot + 1) % self._kept.shape[1]
        kept, values = self._kept.take(slots, axis=1), self._store.values
        recent: Floats = values.take(kept) if values.size else kept.astype(np.float64)
        return recent

    def start_ms(self, length: int) -> int:
        """Return the moment of the oldest of the newest ``length`` samples."""
        interval_ms = self.interval_ms
        return int(self._place[_ANCHOR]) + (self.slot - length + 1) * interval_ms + interval_ms // 2

    def sizes(self, since_ms: Ints) -> Ints:
        """Return how many slots have passed since the moment of each series, as far as they are kept."""
        return np.minimum(self._samples - self._skips(since_ms, self._samples), self.slot + 1)

    def _skips(self, since_ms: Ints, samples: int) -> Ints:
        """Return how many of the oldest of so many samples lie before each of these moments."""
        return ((since_ms - self.start_ms(samples)) // self.interval_ms).clip(0, samples)

    def windows(self, columns: Ints, since_ms: Ints) -> Windows:
        """Return the usable samples of these columns up to now, none from before the moment of the column in
        ``since_ms`` (n,); none of a series that is absent now."""
        room = self._kept.shape[1]
        windows = Windows(np.empty((columns.size, room)), np.empty((columns.size, 2), np.int64))
        skips = self._skips(since_ms[columns], room)
        _windows(self._kept, self._store.values, self.slot, columns, skips, *windows)
        return windows

    def snapshot(self) -> dict[str, Any]:
        """Return plain data."""
        return {"place": self._place.tolist(), "kept": pack(self._kept), "sums": pack(self._sums)}

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same shape."""
        self._place = np.array(plain["place"], np.int64)
        self.interval_ms = plain["place"][_INTERVAL]
        self._kept = unpack(plain["kept"], self._store.dtype, (self.n, self._room(self.slot)))
        self._sums = unpack(plain["sums"], "f8", self._sums.shape)
