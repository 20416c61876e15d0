"""Plans when a series is looked at: once enough is new, and less often if it goes on as it did."""

import numpy as np

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Bools, Floats, Ints
from streams.operators.columns.state import SeriesState, array
from streams.operators.cycles.detect.window import LEAST

PARTS = 3
"""Looked at are all of a window, its newest half, and its newest quarter."""
GROWN = (0.1, 0.1, 0.065)
"""Share of each part that has to be new before it is looked at again: ten samples of the newest 150."""
SHORT = (3, 4)
"""Powers of a half: an eighth and a sixteenth are looked at, too. What began a while ago, or varies, is seen
there alone."""
GROWN_SHORT = 0.5
"""Share of a short part that has to be new before it is looked at again."""
GROWN_STEADY, GROWN_LOCKED = 0.2, 0.5
"""The same of a whole window that goes on as it did, and of one with a locked cycle."""
PATIENT = 180
"""Samples without anything new after which a series goes on as it did."""
RECENT = 10
"""Newest samples that are compared with what is usual."""
FURTHER = 2.0
"""So many times the usual distance from the mean, or so many times the usual spread, is something new."""
LITTLE = 0.02
"""Share of the mean that is nothing new in any case."""
SLOWLY = 0.1
"""Share by which what is usual moves towards the newest; distances and spreads grow at once."""
_NEVER, _LATER = -(1 << 60), 1 << 60

_MEAN, _OFF, _SPREAD = range(3)


@kernel
def _largest(usual: float, newest: float) -> float:
    slowly = (1 - SLOWLY) * usual
    return newest if np.isnan(slowly) or newest > slowly else slowly


@entry("void(float64[:, ::1], int64, float64[:, ::1], int64[::1])")
def _observe(recent: Floats, slot: int, usual: Floats, fresh: Ints) -> None:
    """Take mean and spread of the newest samples into what is ``usual``, and note where they are something
    new."""
    for column in range(len(recent)):
        total, low, high = 0.0, np.inf, -np.inf
        for value in recent[column]:
            total += value
            low, high = min(low, value), max(high, value)
        if np.isnan(total):
            continue
        before, mean, spread = usual[column], total / recent.shape[1], high - low
        off, little = abs(mean - before[_MEAN]), LITTLE * abs(mean)
        new = bool(
            np.isnan(before[_MEAN])
            or off > FURTHER * before[_OFF] + little
            or spread > FURTHER * before[_SPREAD] + little
        )
        before[_OFF] = _largest(before[_OFF], spread if new else off)
        before[_SPREAD] = _largest(before[_SPREAD], spread)
        before[_MEAN] = mean if new else before[_MEAN] + SLOWLY * (mean - before[_MEAN])
        if new:
            fresh[column] = slot


@entry("int64[::1](int64[::1], int64[:, ::1], boolean[::1], int64, int64, int64[:, ::1], int64[::1])")
def _limits(
    columns: Ints, parts: Ints, expected: Bools, samples: int, slot: int, looked: Ints, fresh: Ints
) -> Ints:
    limits = np.zeros(len(columns), np.int64)
    for row in range(len(columns)):
        if expected[columns[row]]:
            limits[row], looked[columns[row]] = samples, slot
            continue
        new = slot - looked[columns[row]]
        steady = slot - fresh[columns[row]] >= PATIENT
        for part in range(1 if steady else PARTS):
            length = min(samples >> part, parts[row, 1] - parts[row, 0])
            if length > 0 and new[part] >= (GROWN_STEADY if steady else GROWN[part]) * length:
                limits[row] = samples >> part
                looked[columns[row], part:] = slot
                break
    return limits


@entry(
    "int64[::1](int64, int64[::1], int64[::1], boolean[::1], boolean[::1], int64, int64[:, ::1], int64[::1])"
)
def _short(
    slot: int,
    columns: Ints,
    sizes: Ints,
    expected: Bools,
    held: Bools,
    samples: int,
    looked: Ints,
    fresh: Ints,
) -> Ints:
    lengths = np.zeros(len(columns), np.int64)
    for row in range(len(columns)):
        column = columns[row]
        if expected[column] or (slot - fresh[column] >= PATIENT and not held[column]):
            continue
        for at in range(len(SHORT)):
            length = (samples >> SHORT[at]) // 4 * 4
            grown = slot - looked[column, at] >= GROWN_SHORT * length
            if grown and LEAST <= length < sizes[row]:
                lengths[row], looked[column, at] = length, slot
                break
    return lengths


class Schedule(SeriesState):
    """Remembers what is usual in n series, when something new was last seen, and when each was looked at.

    ``samples``: how many a window has. Moments are slots of the grid.
    """

    _usual: Floats = array("n", 3, fill=np.nan)
    _fresh: Ints = array("n", fill=_LATER, dtype=np.int64)
    _looked: Ints = array("n", PARTS, fill=_NEVER, dtype=np.int64)
    _looked_short: Ints = array("n", len(SHORT), fill=_NEVER, dtype=np.int64)

    def __init__(self, n: int, samples: int) -> None:
        super().__init__(n)
        self._samples = samples

    def observe(self, recent: Floats, slot: int) -> None:
        """Take the newest samples of each series up to ``slot``, shape (n, ``RECENT``); NaN is absent."""
        _observe(recent, slot, self._usual, self._fresh)

    def due(self, slot: int, sizes: Ints, locked: Bools, doubted: Bools) -> Ints:
        """Return columns that may be due at ``slot``; ``sizes``: how many samples there are of each at most.

        Of those that are ``locked`` it is sure that they are due.
        """
        shares = np.where(slot - self._fresh >= PATIENT, GROWN_STEADY, 0.0)
        shares[locked] = GROWN_LOCKED
        return (doubted | (slot - self._looked[:, 0] >= shares * sizes)).nonzero()[0]

    def limits(self, slot: int, columns: Ints, parts: Ints, expected: Bools) -> Ints:
        """Return how many of the newest samples of these columns are looked at now, 0 for none.

        ``parts``: begins and ends of their active parts. Those that are ``expected``, of all columns, to have
        a cycle are looked at in any case.
        """
        return _limits(columns, parts, expected, self._samples, slot, self._looked, self._fresh)

    def short(self, slot: int, columns: Ints, sizes: Ints, expected: Bools, held: Bools) -> tuple[Ints, Ints]:
        """Return those of which a short part is looked at now, too: their places among these ``columns``,
        which hold so many samples; and the lengths of the parts. Of all columns, those that are ``expected``
        to have a cycle need none; ``held``: those whose cycle was found in such a part."""
        lengths = _short(slot, columns, sizes, expected, held, self._samples, self._looked_short, self._fresh)
        (places,) = lengths.nonzero()
        return places, lengths[places]

    def wake(self, slot: int, column: int) -> None:
        """Note that something new is in this column at ``slot``: a cycle was found, or has ended."""
        self._fresh[column], self._looked[column] = slot, _NEVER
        self._looked_short[column] = _NEVER
