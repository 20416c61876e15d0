"""Holds a chart as plain data, that a page and a picture are drawn from alike."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dutycycle.report.view import View
from dutycycle.traces.frames import Buckets, Floats, FrameTicks, Moments, buckets

Points = TypeVar("Points", Buckets, Moments)
POINTS = 1000
"""Points of a line at most; of a map, a third of that."""
_PREFIXES = {
    "bytes": (("GiB", 1024.0**3), ("MiB", 1024.0**2)),
    "bytes/s": (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)),
}
GREY = -1
"""A color beside those of the palette, for what is at rest."""
LINES_OF_CYCLE = 40
"""With more of them a chart could not be seen."""
_FOLD_BINS = 40


@dataclass(frozen=True, slots=True)
class Line:
    """Holds one series. ``group``: the GPU that it belongs to, by which it is shown or hidden; empty for
    none. ``color``: a place in the palette."""

    name: str
    group: str
    color: int
    points: Buckets


@dataclass(frozen=True, slots=True)
class Dots:
    """Holds moments that nothing connects, such as forecasts, each with its interval. ``color``: as of a
    line."""

    name: str
    color: int
    points: Moments


@dataclass(frozen=True, slots=True)
class Spots:
    """Holds dots with two values each, in their order; nothing else connects them. ``color``: a place in the
    palette; None: the later, the darker."""

    name: str
    x: Floats
    y: Floats
    color: int | None = None


@dataclass(frozen=True, slots=True)
class Marks:
    """Holds moments that stand out on a line, such as reduced clocks."""

    name: str
    group: str
    times_ms: list[int]
    values: list[float]


@dataclass(frozen=True, slots=True)
class Fan:
    """Holds a forecast as it was made: its moment and those ahead, with the expected value and the
    interval."""

    times_ms: list[int]
    values: list[float]
    low: list[float]
    high: list[float]


@dataclass(frozen=True, slots=True)
class Chart:
    """Holds one chart. ``kind``: lines, heat (one row a line), stack (one line upon the other), fan, plane
    (of ``spots``), and from 0 on: fold (over one cycle) or since (over a run). ``across``: what the
    horizontal axis of a plane says; ``limits_across``: what stands on it as ``limits`` do on the other."""

    id: str
    title: str
    unit: str
    lines: list[Line]
    dots: list[Dots] = field(default_factory=list)
    kind: str = "lines"
    note: str = ""
    limits: list[tuple[str, float]] = field(default_factory=list)
    marks: list[Marks] = field(default_factory=list)
    fans: list[Fan] = field(default_factory=list)
    spots: list[Spots] = field(default_factory=list)
    across: str = ""
    limits_across: list[tuple[str, float]] = field(default_factory=list)
    cycle: tuple[str, int, int, float] | None = None
    """What is said of the cycles; of the one that is marked from when to when, and its period in seconds."""
    most: float | None = None
    """The end of the vertical axis, where it is known."""

    @property
    def in_time(self) -> bool:
        """Tell whether the horizontal axis is that of the report's time."""
        return self.kind in ("lines", "heat", "stack")

    @property
    def series(self) -> list[Line | Dots]:
        """Return all that has values, in the order of the legend."""
        return [*self.lines, *self.dots]


def cycle_lines_ms(chart: Chart) -> list[int]:
    """Tell where each period of the chart's cycle begins; none where they would be too many to see."""
    if chart.cycle is None:
        return []
    _, first_ms, last_ms, period_s = chart.cycle
    count = int((last_ms - first_ms) / 1000 / period_s)
    return (
        [round(first_ms + 1000 * period_s * n) for n in range(count + 1)] if count <= LINES_OF_CYCLE else []
    )


def unit_of(unit: str, most: Iterable[float | None]) -> tuple[str, float]:
    """Return the unit that suits values of up to ``most``, and how much of the measured one it is."""
    if unit not in _PREFIXES:
        return unit, 1.0
    highest = max((value for value in most if value is not None), default=0.0)
    prefixes = _PREFIXES[unit]
    return next((prefix for prefix in prefixes if highest >= prefix[1]), prefixes[-1])


def points_of(view: View, ticks: FrameTicks, column: str) -> Buckets:
    """Return a column over the time of the report."""
    return buckets(ticks.times, ticks[column], view.first_ms, view.last_ms, POINTS)


def drawn_points(chart: Chart, line: Line) -> Buckets:
    """Return points of a line. Where a cycle ends the next begins: its first value stands at its end, too."""
    points = line.points
    if chart.kind != "fold":
        return points
    mean, low, high = (np.append(values, values[:1]) for values in (points.mean, points.low, points.high))
    return replace(points, mean=mean, low=low, high=high)


def stacked(lines: Iterable[Line]) -> list[tuple[Line, Floats, Floats]]:
    """Give each line with the values that it reaches from and to when it stands upon those before it. They
    have one grid."""
    layers: list[tuple[Line, Floats, Floats]] = []
    for line in lines:
        below = layers[-1][2] if layers else np.where(np.isnan(line.points.mean), np.nan, 0.0)
        layers.append((line, below, below + line.points.mean))
    return layers


def block_corners(points: Buckets) -> npt.NDArray[np.int64]:
    """Give the times of two corners of each bucket, its beginning and its end: a bucket stands for all of its
    time."""
    return np.column_stack((points.times, points.times + points.step_ms)).ravel()


def known_runs(points: Buckets) -> list[slice]:
    """Tell where values stand without a gap between them."""
    known = np.concatenate([[False], np.isfinite(points.mean), [False]])
    first, last = np.flatnonzero(known[1:] & ~known[:-1]), np.flatnonzero(known[:-1] & ~known[1:])
    return [slice(begin, end) for begin, end in zip(first.tolist(), last.tolist(), strict=True)]


def folded(times: npt.NDArray[np.int64], values: Floats, period_s: float, tick_ms: int) -> Buckets:
    """Lay the periods on one another: of each part of one the mean, with 80 % of the ticks between low and
    high. It begins where the work does: where the mean rises most."""
    bins = max(1, min(_FOLD_BINS, round(1000 * period_s / max(tick_ms, 1))))
    known = np.isfinite(values)
    phase = (times[known] - times[:1]) / 1000 % period_s / period_s
    place, value = (phase * bins).astype(int), values[known]
    mean, low, high = (np.full(bins, np.nan) for _ in range(3))
    for at in range(bins):
        here = value[place == at]
        if len(here):
            mean[at], (low[at], high[at]) = here.mean(), np.percentile(here, (10, 90))
    rise = int(np.argmax(np.nan_to_num(mean - np.roll(mean, 1))))
    mean, low, high = (np.roll(part, -rise) for part in (mean, low, high))
    return Buckets(0, round(period_s / bins * 1000), mean, low, high, exact=False)


def scaled(points: Points, scale: float) -> Points:
    """Return the points in another unit."""
    return replace(points, mean=points.mean / scale, low=points.low / scale, high=points.high / scale)
