"""Follows how the locked cycles of n series go on: each is held, and released when it has ended.

The end is found by Page's test with the mean so far (E. S. Page 1954, D. Hinkley 1971) on the *gain* of the
newest periods (``detect.follow``), as River's ``PageHinkley`` does it.
"""

from typing import Any

import numpy as np

from streams.compiled import entry
from streams.operators.columns.arrays import Bools, Floats, Ints, pack, unpack
from streams.operators.columns.state import SeriesState, array
from streams.operators.columns.vectors import copy_into
from streams.operators.cycles.detect.follow import follow_newest
from streams.operators.cycles.detect.window import Windows
from streams.operators.cycles.result import near

REMEMBERED = 30
"""So many gains are kept at most; when they are more, the newer half of them."""
DELTA, THRESHOLD, ALPHA, LEAST = 0.1, 0.5, 1 - 0.0001, 2
"""Page's test fires when the gains fall together by half below their mean; each may fall by a tenth."""
HALF, SIGMAS = 0.5, 3.0
"""A cycle is gone if its gain is below half, and so far below 1 that its noise does not explain it."""
BACK = 0.75
"""Gain from which on a cycle is not suspected to have ended."""
DRIFT = 0.05
"""Up to this share it is the same cycle, a little faster or slower."""
FOLLOWED = 4
"""A cycle is followed so many times in a period."""

_PERIOD, _NOISE, _GAINS = 0, 1, 2
"""Columns of ``floats``; the gains are the last ones."""
_FOLLOWED_MS, _SUSPECTED, _COUNT = range(3)
"""Columns of ``ints``."""
_GOES_ON, _DOUBTED = -1, -2
"""Instead of how many samples have strayed."""


@entry("boolean(float64[::1])")
def falls(gains: Floats) -> bool:
    """Tell whether Page's test fires at the last of the ``gains``; it begins anew after it has fired."""
    fired, count, mean, total, most = False, 0, 0.0, 0.0, -1.0
    for gain in gains:
        if fired:
            fired, count, mean, total, most = False, 0, 0.0, 0.0, -1.0
        count += 1
        mean += (gain - mean) / count
        total = ALPHA * total + (gain - mean) + DELTA
        most = max(most, total)
        fired = count >= LEAST and most - total > THRESHOLD
    return fired


@entry("boolean(float64, float64, float64[::1], int64[::1])")
def take(gain: float, noise: float, floats: Floats, ints: Ints) -> bool:
    """Take the ``gain`` of the newest periods and its standard error; whether the cycle has ended."""
    gains, count = floats[_GAINS:], ints[_COUNT]
    if count == REMEMBERED:
        half = REMEMBERED // 2
        copy_into(gains, gains[REMEMBERED - half + 1 :])
        count = half - 1
    gains[count] = gain
    ints[_COUNT] = count + 1
    # The test starts over once it has fired; the suspicion stays until the cycle is back.
    suspected = gain < BACK and (ints[_SUSPECTED] == 1 or falls(gains[: count + 1]))
    ints[_SUSPECTED] = 1 if suspected else 0
    # At an end the noise is that of the end, not of the cycle: what it was before counts.
    if np.isnan(floats[_NOISE]) or gain >= BACK:
        floats[_NOISE] = noise
    return bool(suspected and gain < HALF and 1 - gain > SIGMAS * floats[_NOISE])


@entry(
    "void(float64[:, ::1], int64[:, ::1], int64[::1], float64, int64, float64[:, ::1], int64[:, ::1],"
    " int64[::1])"
)
def _follow(
    samples: Floats, bounds: Ints, columns: Ints, interval_ms: float, ts_ms: int, floats: Floats, ints: Ints,
    strayed: Ints,
) -> None:  # fmt: skip
    for row in range(len(columns)):
        column, window = columns[row], samples[row, bounds[row, 0] : bounds[row, 1]]
        strayed[row] = _DOUBTED
        known, gain, noise, off = follow_newest(window, floats[column, _PERIOD] * 1000 / interval_ms)
        if known:
            ints[column, _FOLLOWED_MS] = ts_ms
            ended = take(gain, noise, floats[column], ints[column])
            strayed[row] = off if ended else _DOUBTED if gain < BACK else _GOES_ON


class Locks(SeriesState):
    """Holds the period of the locked cycle of each of n series, and how it was followed: a row each of
    ``floats`` (period in seconds, noise, gains; NaN where there is none) and ``ints``. There is room for
    gains from the first lock on: on most scales there is none."""

    floats: Floats = array("n", "_width", fill=np.nan)
    ints: Ints = array("n", 3, dtype=np.int64)

    def __init__(self, n: int) -> None:
        self._width = _GAINS
        super().__init__(n)

    def _widen(self) -> None:
        if self._width == _GAINS:
            self._width = _GAINS + REMEMBERED
            self.floats = np.hstack((self.floats, np.full((self.n, REMEMBERED), np.nan)))

    @property
    def periods_s(self) -> Floats:
        """Return the newest period of each locked cycle, NaN without a lock; shape (n,)."""
        return self.floats[:, _PERIOD]

    @property
    def locked(self) -> Bools:
        """Tell which series are locked; shape (n,)."""
        return np.asarray(~np.isnan(self.floats[:, _PERIOD]))

    def hold(self, column: int, period_s: float | None) -> None:
        """Lock the series on this period, which is that of another cycle if it is not near; None: there is no
        cycle any more."""
        before_s = float(self.floats[column, _PERIOD])
        if period_s is None or not near(period_s, before_s, DRIFT):
            self.floats[column], self.ints[column] = np.nan, 0
        if period_s is not None:
            self._widen()
            self.floats[column, _PERIOD] = period_s

    def to_follow(self, ts_ms: int) -> Ints:
        """Return the columns whose gain is due at ``ts_ms``: four times in a period."""
        due = ts_ms - self.ints[:, _FOLLOWED_MS] >= self.floats[:, _PERIOD] * 1000 / FOLLOWED
        return due.nonzero()[0]

    def follow(
        self, ts_ms: int, interval_ms: int, columns: Ints, windows: Windows
    ) -> tuple[list[tuple[int, int]], Ints]:
        """Follow the cycles of these columns at ``ts_ms``, each in its window.

        The columns in which it has ended and was released, with how many samples ago that was; and those in
        which it is in doubt whether it goes on: their window is too short to say, or they follow badly.
        """
        strayed = np.empty(columns.size, np.int64)
        _follow(*windows, columns, interval_ms, ts_ms, self.floats, self.ints, strayed)
        ended = [(int(columns[row]), int(strayed[row])) for row in (strayed >= 0).nonzero()[0]]
        for column, _ in ended:
            self.hold(column, None)
        return ended, columns[strayed == _DOUBTED]

    def snapshot(self) -> dict[str, Any]:
        """Return plain data: of what is locked, which is little."""
        columns = self.locked.nonzero()[0]
        return {
            "columns": columns.tolist(),
            "floats": pack(self.floats[columns]),
            "ints": pack(self.ints[columns]),
        }

    def restore(self, plain: dict[str, Any]) -> None:
        """Go on from a snapshot of the same shape."""
        columns = plain["columns"]
        if columns:
            self._widen()
        self.floats[columns] = unpack(plain["floats"], "f8", (len(columns), self.floats.shape[1]))
        self.ints[columns] = unpack(plain["ints"], "i8", (len(columns), self.ints.shape[1]))
