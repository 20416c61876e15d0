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


@dataclass(frozen=True, slots=True)
class ScrapedSeries:
    """One series: its labels, the name among them, and its samples (Unix ms, value), oldest first."""

    labels: SeriesLabels
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class NewSample:
    """The newest sample of a series, seen for the first time.

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


def _points(values: Iterable[tuple[float, str]]) -> Iterator[tuple[int, float]]:
    for seconds, text in values:
        if isfinite(value := float(text)):
            yield round(seconds * 1000), value


def without_replicas(series: Sequence[ScrapedSeries]) -> list[ScrapedSeries]:
    """What several replicas of Prometheus scraped, each series once, without the replica's label.

    The first replica counts; where it has a gap of one and a half scrapes, the next takes over. Points are
    not mixed: two scrapes of one moment would look like twice as many.
    """
    if not any(name in one.labels for one in series for name in _REPLICA):
        return list(series)
    replicas: dict[tuple[tuple[str, str], ...], list[ScrapedSeries]] = {}
    for one in series:
        key = tuple((name, text) for name, text in sorted(one.labels.items()) if name not in _REPLICA)
        replicas.setdefault(key, []).append(one)
    return [ScrapedSeries(dict(key), _merged(of)) for key, of in replicas.items()]


def _merged(replicas: list[ScrapedSeries]) -> tuple[tuple[int, float], ...]:
    replicas.sort(key=lambda one: [one.labels.get(name, "") for name in _REPLICA])
    of = [one.points for one in replicas if one.points]
    if len(of) < 2:
        return of[0] if of else ()
    gaps = [after[0] - before[0] for points in of for before, after in pairwise(points)]
    most_ms = 1.5 * median(gaps) if gaps else 0.0
    merged = sorted((ts_ms, at, value) for at, points in enumerate(of) for ts_ms, value in points)
    current = 0 if of[0][0][0] - merged[0][0] <= most_ms else merged[0][1]
    kept: list[tuple[int, float]] = []
    for ts_ms, at, value in merged:
        if at == current or (kept and ts_ms - kept[-1][0] > most_ms):
            current = at
            kept.append((ts_ms, value))
    return tuple(kept)


class ScrapeCursor:
    """Gives each sample out once. So what stopped being scraped is absent at once, and never repeated."""

    def __init__(self) -> None:
        self._last: dict[tuple[tuple[str, str], ...], tuple[int, float]] = {}

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
        if last is None:
            return NewSample(series.labels, ts_ms, value)
        passed_ms, grown = ts_ms - last[0], value - last[1]
        return NewSample(
            series.labels, ts_ms, value, passed_ms, grown / passed_ms * 1000 if grown >= 0 else None
        )
