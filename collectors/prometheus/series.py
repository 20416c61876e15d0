"""Series as Prometheus answers them, and which of their samples are new. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from statistics import median
from typing import Any

_FORGOTTEN_MS = 15 * 60_000
_REPLICA = ("prometheus_replica", "__replica__", "receive_replica", "replica")
"""Labels that tell apart the Prometheus servers that scrape the same targets; Thanos and Mimir show them."""

SeriesLabels = Mapping[str, str]
Point = tuple[int, float]
"""Unix milliseconds, and the value."""


@dataclass(frozen=True, slots=True)
class ScrapedSeries:
    """One series: its labels, the name among them, and its samples (Unix ms, value), oldest first."""

    labels: SeriesLabels
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class NewSample:
    """A sample of a series, seen for the first time.

    ``passed_ms`` lies between it and the one before, ``per_s`` is a counter's growth since then. Both are
    absent for a first sample, ``per_s`` as well when the counter began anew.
    """

    labels: SeriesLabels
    ts_ms: int
    value: float
    passed_ms: int | None = None
    per_s: float | None = None

    @property
    def name(self) -> str:
        """The metric's name."""
        return self.labels["__name__"]


def parse_matrix(result: Iterable[Mapping[str, Any]]) -> list[ScrapedSeries]:
    """Series of a range. NaN and infinities are no measurements: they are left out.

    Raises ``KeyError``, ``TypeError`` or ``ValueError`` for what is no matrix.
    """
    return [ScrapedSeries(one["metric"], tuple(_points(one["values"]))) for one in result]


def parse_vector(result: Iterable[Mapping[str, Any]]) -> list[ScrapedSeries]:
    """Series of one moment; raises as ``parse_matrix``."""
    return [ScrapedSeries(one["metric"], tuple(_points([one["value"]]))) for one in result]


def _points(values: Iterable[tuple[float, str]]) -> Iterator[Point]:
    for seconds, text in values:
        if isfinite(value := float(text)):
            yield round(seconds * 1000), value


def without_replicas(series: Sequence[ScrapedSeries]) -> list[ScrapedSeries]:
    """What several replicas of Prometheus scraped, each series once, without the replica's label.

    The first replica counts; where it misses a scrape, the next takes over. Points are not mixed: two scrapes
    of one moment would look like twice as many.
    """
    if not any(name in one.labels for one in series for name in _REPLICA):
        return list(series)
    replicas: dict[tuple[tuple[str, str], ...], list[ScrapedSeries]] = {}
    for one in series:
        key = tuple((name, text) for name, text in sorted(one.labels.items()) if name not in _REPLICA)
        replicas.setdefault(key, []).append(one)
    return [ScrapedSeries(dict(key), _merged(of)) for key, of in replicas.items()]


def _merged(replicas: list[ScrapedSeries]) -> tuple[Point, ...]:
    replicas.sort(key=lambda one: [one.labels.get(name, "") for name in _REPLICA])
    of = [one.points for one in replicas if one.points]
    if len(of) < 2:
        return of[0] if of else ()
    gaps = [after[0] - before[0] for points in of for before, after in pairwise(points)]
    scrape_ms = median(gaps) if gaps else 1  # a moment counts once: some targets say the time themselves
    merged = sorted((ts_ms, at, value) for at, points in enumerate(of) for ts_ms, value in points)
    current = 0 if of[0][0][0] - merged[0][0] < scrape_ms else merged[0][1]
    kept: list[Point] = []
    for ts_ms, at, value in merged:
        if at == current or (kept and ts_ms - kept[-1][0] >= scrape_ms):
            current = at
            kept.append((ts_ms, value))
    return tuple(kept)


def samples_after(series: ScrapedSeries, start_ms: int, gap_ms: int) -> Iterator[NewSample]:
    """All samples after ``start_ms``; the points before it serve the first rate alone.

    After a gap of more than ``gap_ms`` a series begins anew: no rate is taken over it.
    """
    last: Point | None = None
    for point in series.points:
        if point[0] > start_ms:
            known = last if last is not None and point[0] - last[0] <= gap_ms else None
            yield _sample(series.labels, known, point)
        last = point


def _sample(labels: SeriesLabels, last: Point | None, point: Point) -> NewSample:
    if last is None:
        return NewSample(labels, *point)
    passed_ms, grown = point[0] - last[0], point[1] - last[1]
    return NewSample(labels, *point, passed_ms, grown / passed_ms * 1000 if grown >= 0 else None)


class ScrapeCursor:
    """Gives each sample out once. So what stopped being scraped is absent at once, and never repeated."""

    def __init__(self) -> None:
        self._last: dict[tuple[tuple[str, str], ...], Point] = {}

    def of(self, series: Iterable[ScrapedSeries]) -> list[NewSample]:
        """The new samples of an answer; series that ended a quarter of an hour ago are forgotten."""
        found = [new for one in series if (new := self._newest(one)) is not None]
        if found:
            newest = max(one.ts_ms for one in found)
            self._last = {key: last for key, last in self._last.items() if newest - last[0] < _FORGOTTEN_MS}
        return found

    def _newest(self, series: ScrapedSeries) -> NewSample | None:
        key = tuple(sorted(series.labels.items()))
        last = self._last.get(key)
        if not series.points or (last is not None and series.points[-1][0] <= last[0]):
            return None
        ts_ms, value = self._last[key] = series.points[-1]
        if last is None and len(series.points) > 1:
            last = series.points[-2]
        return _sample(series.labels, last, (ts_ms, value))
