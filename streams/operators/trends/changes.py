"""Which trends are worth telling: at once if something changed, else no more often than once a minute.

Something changed when memory begins or ceases to run out, or much sooner or later than was said; when a
cycle is found or lost; and when a series without one has left all that was expected of it. A trend that is
what was told is not told again.
"""

from typing import Any

import numpy as np

from streams.operators.columns.arrays import Bools, Floats, Ints, pack, remap, unpack
from streams.operators.trends.forecast import TrendForecast

QUIET_MS = 60_000
"""A trend whose figures moved is told again after so long."""
SETTLING_MS = 30_000
"""A series is told first when it was seen for so long: before, its forecasts are guesses."""
LEFT = 3
"""Evaluations in a row that a level has to lie outside of the forecast for that to be news."""
SOONER = 0.25
"""Share of the time left by which what was said about its end has to be wrong, to be news,"""
SECONDS = 60.0
"""and at least so much."""
SAME = 1e-3
"""Share of the forecast's interval that figures may move and count as the same."""

ROWS = 10
SINCE_MS, TOLD_MS, LEVEL, VALUE, LOW, HIGH, EXHAUSTS, CYCLIC, OUTSIDE, WIDTH = range(ROWS)
NEVER = -1.0


class TrendNews:
    """What was told of n series, in the rows of an array of shape (ROWS, n)."""

    def __init__(self, n: int = 0) -> None:
        self._told = _nothing(n)

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        fresh = _nothing(keep.size)
        self._told = np.where(keep >= 0, remap(self._told, keep, 0.0), fresh)

    def news(self, ts_ms: int, forecast: TrendForecast, cyclic: Bools) -> Ints:
        """The columns to tell now, of all, and from now on they count as told."""
        told, known = self._told, np.isfinite(forecast.level)
        begun = np.where(told[SINCE_MS] >= 0, told[SINCE_MS], ts_ms)
        told[SINCE_MS] = np.where(known, begun, NEVER)
        told[TOLD_MS, ~known] = NEVER
        now = _figures(forecast, cyclic)
        outside = (forecast.level < told[LOW]) | (forecast.level > told[HIGH])
        told[OUTSIDE] = np.where(outside & ~cyclic, told[OUTSIDE] + 1, 0)
        again = (ts_ms - told[TOLD_MS] >= QUIET_MS) & self._moved(now)
        elsewhere = self._ends_elsewhere(ts_ms, now)
        changed = (told[CYCLIC] != now[CYCLIC]) | (told[OUTSIDE] >= LEFT) | elsewhere
        settled = ts_ms - told[SINCE_MS] >= SETTLING_MS
        columns = np.flatnonzero(known & np.where(told[TOLD_MS] >= 0, changed | again, settled))
        told[LEVEL:, columns] = now[LEVEL:, columns]
        told[TOLD_MS, columns] = ts_ms
        return columns

    def _moved(self, now: Floats) -> Bools:
        """Whether any figure is other than was told."""
        told = self._told
        off = np.abs(now[[LEVEL, VALUE, LOW, HIGH]] - told[[LEVEL, VALUE, LOW, HIGH]]).max(axis=0)
        return np.asarray((off > SAME * told[WIDTH]) | (now[EXHAUSTS] != told[EXHAUSTS]))

    def _ends_elsewhere(self, ts_ms: int, now: Floats) -> Bools:
        """Whether memory began or ceased to run out, or does so at another time than was told."""
        told = self._told
        left_s = told[EXHAUSTS] - (ts_ms - told[TOLD_MS]) / 1000
        off = np.abs(now[EXHAUSTS] - left_s)
        ends, ended = now[EXHAUSTS] >= 0, told[EXHAUSTS] >= 0
        moved = ends & ended & (off > np.maximum(SOONER * np.maximum(left_s, 0), SECONDS))
        return np.asarray((ends != ended) | moved)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"n": self._told.shape[1], "told": pack(self._told)}

    @classmethod
    def restore(cls, plain: dict[str, Any]) -> "TrendNews":
        """What wrote the snapshot."""
        news = cls(plain["n"])
        news._told = unpack(plain["told"], "f8", news._told.shape)
        return news


def _nothing(n: int) -> Floats:
    told = np.zeros((ROWS, n))
    told[[SINCE_MS, TOLD_MS, EXHAUSTS]] = NEVER
    return told


def _figures(forecast: TrendForecast, cyclic: Bools) -> Floats:
    """The rows of what is to be told; the bounds are the widest of all horizons."""
    now = np.zeros((ROWS, forecast.level.size))
    now[LEVEL], now[VALUE] = forecast.level, forecast.value[-1]
    now[LOW], now[HIGH] = forecast.p05.min(axis=0), forecast.p95.max(axis=0)
    now[WIDTH] = now[HIGH] - now[LOW]
    now[EXHAUSTS] = np.where(np.isnan(forecast.exhausts_in_s), NEVER, forecast.exhausts_in_s)
    now[CYCLIC] = cyclic
    return now
