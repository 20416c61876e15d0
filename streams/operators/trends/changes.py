"""Which trends are published: at once if something changed, else no more often than once a minute.

Something changed when memory begins or ceases to run out, or will be full much sooner or later than was
published; when a cycle is found or lost; and when the level of a series without a cycle stays outside of its
forecast. A trend whose figures are those that were published is not published again.
"""

from typing import Any

import numpy as np

from streams.operators.columns.arrays import Bools, Floats, Ints, pack, remap, unpack
from streams.operators.trends.bank import TrendForecast

QUIET_MS = 60_000
"""A trend whose figures moved is published again after so long."""
SETTLING_MS = 30_000
"""A series is published first when it was seen for so long: before, its forecasts are guesses."""
CONFIRMED = 3
"""Evaluations in a row that a level has to lie outside of the published forecast to be a change."""
SOONER = 0.25
"""Share of the time left by which the published end has to be wrong to be a change,"""
SECONDS = 60.0
"""and at least so many seconds."""
SAME = 1e-3
"""Share of the forecast's interval that figures may move and count as the same."""

ROWS = 12
SINCE_MS, PUBLISHED_MS = range(2)
LEVEL, SLOPE, HORIZONS, VALUE, LOW, HIGH, EXHAUSTS, CYCLIC, OUTSIDE, WIDTH = range(2, ROWS)
"""When the series was seen first and published last (ms); what was published: level, slope, number of
horizons, forecast at the farthest, bounds over all (NaN without any), seconds to exhaustion, whether there
was a cycle; evaluations outside of the bounds; width between them."""
NEVER = -1.0


class TrendDebouncer:
    """What was published of n series, in the rows of an array of shape (ROWS, n)."""

    def __init__(self, n: int = 0) -> None:
        self._published = _nothing(n)

    def resize(self, keep: Ints) -> None:
        """Rearrange the columns; -1 is a new series."""
        self._published = np.where(keep >= 0, remap(self._published, keep, 0.0), _nothing(keep.size))

    def changes(self, ts_ms: int, forecast: TrendForecast, cyclic: Bools) -> Ints:
        """The columns to publish of a ``forecast`` of all n; from now on they count as published.

        ``cyclic``, shape (n,), says which series have a cycle.
        """
        last, known = self._published, np.isfinite(forecast.level)
        begun = np.where(last[SINCE_MS] >= 0, last[SINCE_MS], ts_ms)
        last[SINCE_MS] = np.where(known, begun, NEVER)
        last[PUBLISHED_MS, ~known] = NEVER
        now = _figures(forecast, cyclic)
        outside = (forecast.level < last[LOW]) | (forecast.level > last[HIGH])
        last[OUTSIDE] = np.where(outside & ~cyclic, last[OUTSIDE] + 1, 0)
        again = (ts_ms - last[PUBLISHED_MS] >= QUIET_MS) & self._moved(now)
        elsewhere = self._ends_elsewhere(ts_ms, now)
        changed = (last[CYCLIC] != now[CYCLIC]) | (last[OUTSIDE] >= CONFIRMED) | elsewhere
        settled = ts_ms - last[SINCE_MS] >= SETTLING_MS
        columns = np.flatnonzero(known & np.where(last[PUBLISHED_MS] >= 0, changed | again, settled))
        last[LEVEL:, columns] = now[LEVEL:, columns]
        last[PUBLISHED_MS, columns] = ts_ms
        return columns

    def _moved(self, now: Floats) -> Bools:
        """Whether any figure is other than was published."""
        last = self._published
        off = np.abs(now[[LEVEL, VALUE, LOW, HIGH]] - last[[LEVEL, VALUE, LOW, HIGH]]).max(axis=0)
        exact = [SLOPE, HORIZONS, EXHAUSTS]
        others = (now[exact] != last[exact]).any(axis=0)
        # What has no forecast has no interval that it could stay in: its distance is NaN.
        return np.asarray(~(off <= SAME * last[WIDTH]) | others)

    def _ends_elsewhere(self, ts_ms: int, now: Floats) -> Bools:
        """Whether memory began or ceased to run out, or does so at another time than was published."""
        last = self._published
        left_s = last[EXHAUSTS] - (ts_ms - last[PUBLISHED_MS]) / 1000
        off = np.abs(now[EXHAUSTS] - left_s)
        ends, ended = now[EXHAUSTS] >= 0, last[EXHAUSTS] >= 0
        moved = ends & ended & (off > np.maximum(SOONER * np.maximum(left_s, 0), SECONDS))
        return np.asarray((ends != ended) | moved)

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"n": self._published.shape[1], "published": pack(self._published)}

    @classmethod
    def restore(cls, plain: dict[str, Any]) -> "TrendDebouncer":
        """What wrote ``plain``."""
        debouncer = cls(plain["n"])
        debouncer._published = unpack(plain["published"], "f8", debouncer._published.shape)
        return debouncer


def _nothing(n: int) -> Floats:
    published = np.zeros((ROWS, n))
    published[[SINCE_MS, PUBLISHED_MS, EXHAUSTS]] = NEVER
    return published


def _figures(forecast: TrendForecast, cyclic: Bools) -> Floats:
    """The rows of what would be published; the bounds are the widest of all horizons."""
    now = np.zeros((ROWS, forecast.level.size))
    now[LEVEL], now[SLOPE], now[HORIZONS] = forecast.level, forecast.slope_per_s, forecast.known.sum(axis=0)
    now[VALUE] = forecast.value[0]
    for value in forecast.value[1:]:
        now[VALUE] = np.where(np.isnan(value), now[VALUE], value)
    now[LOW] = np.fmin.reduce(forecast.p05, axis=0)
    now[HIGH] = np.fmax.reduce(forecast.p95, axis=0)
    now[WIDTH] = now[HIGH] - now[LOW]
    now[EXHAUSTS] = np.where(np.isnan(forecast.exhausts_in_s), NEVER, forecast.exhausts_in_s)
    now[CYCLIC] = cyclic
    return now
