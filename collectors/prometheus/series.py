"""Reads series as Prometheus answers them, and tells which of their samples are new. Pure."""

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import isfinite, nan
from statistics import median
from typing import Any

from collectors.rates import Growth
from dutycycle.contract.units import printable_text

_FORGOTTEN_MS = 15 * 60_000
_REPLICA = re.compile(r"(?:\w*_)?replica_*")
"""Labels that tell apart the Prometheus servers that scrape the same targets; Thanos and Mimir show them."""
_OF_SERVER = frozenset({"prometheus", "prometheus_group", "monitor", "tenant_id", "__tenant_id__"})
"""Usual labels of the Prometheus, or tenant, that a target was scraped for; several may scrape one."""
_MEMORY = re.compile(
    r"container_memory_working_set_bytes|machine_memory_bytes|node_memory_\w+_bytes"
).fullmatch
_MOST_BYTES, _MOST_COUNTED = 1e14, 2.0**64
_NO_TEXT = re.compile(r"<{1,3}[\w ]+>{1,3}|\[?N/A\]?|\(null\)")
"""What an exporter writes for a text that it does not have, such as DCGM's ``<<<NULL>>>``."""
_MOST_TEXT, _MOST_UID = 1024, 512

SeriesLabels = Mapping[str, str]
Point = tuple[int, float]
"""Unix milliseconds, and the value."""


@dataclass(frozen=True, slots=True)
class ScrapedSeries:
    """Holds one series: its labels, the name among them, and its samples (Unix ms, value), oldest first.

    With one sample a step, by the time of a point: ``highs`` has the largest value in the step, of which the
    point is the mean, and ``per_s`` a counter's growth per second. None where every sample is there.
    ``lengths_ms``: of how long a time a point is, where that is less than a step.
    ``no_numbers``: samples, or steps, that are NaN or infinite, or that no machine has. They measure nothing,
    and are no points.
    """

    labels: SeriesLabels
    points: tuple[Point, ...]
    highs: Mapping[int, float] | None = None
    per_s: Mapping[int, float] | None = None
    lengths_ms: Mapping[int, int] | None = None
    no_numbers: tuple[Point, ...] = ()


@dataclass(frozen=True, slots=True)
class NewSample:
    """Holds a sample of a series, seen for the first time.

    ``passed_ms`` lies between it and the one before, ``per_s`` is a counter's growth since then. Both are
    absent for a first sample, ``per_s`` as well where a counter's growth is not known
    (``collectors.rates.Growth``). ``high``: the largest value since the one before, where ``value`` is the
    mean.
    """

    labels: SeriesLabels
    ts_ms: int
    value: float
    passed_ms: int | None = None
    per_s: float | None = None
    high: float | None = None

    @property
    def name(self) -> str:
        """Return the metric's name."""
        return self.labels["__name__"]


def parse_matrix(result: Iterable[Mapping[str, Any]] | None) -> list[ScrapedSeries]:
    """Read series of a range; some servers write null for none.

    Raises ``KeyError``, ``TypeError`` or ``ValueError`` for what is no matrix.
    """
    return [
        _read_series(answer["metric"], answer["histograms"] if _has_histograms(answer) else answer["values"])
        for answer in result or ()
    ]


def parse_vector(result: Iterable[Mapping[str, Any]] | None) -> list[ScrapedSeries]:
    """Return series of one moment; raises as ``parse_matrix``."""
    return [
        _read_series(answer["metric"], [answer["histogram"] if _has_histograms(answer) else answer["value"]])
        for answer in result or ()
    ]


def _has_histograms(answer: Mapping[str, Any]) -> bool:
    """Tell whether a series has native histograms alone: its samples are no numbers."""
    return not answer.keys() & {"value", "values"} and bool(answer.keys() & {"histogram", "histograms"})


def _read_series(labels: SeriesLabels, values: Iterable[tuple[float, Any]]) -> ScrapedSeries:
    samples = []
    for seconds, number in values:
        try:
            value = float(number)
        except (TypeError, ValueError):  # it is counted as such, and the other samples are kept
            value = nan
        samples.append((round(seconds * 1000), value))
    no_numbers = tuple(point for point in samples if not isfinite(point[1]))
    # A store that two agents write to without deduplication, such as VictoriaMetrics, has moments twice.
    points = dict(point for point in samples if isfinite(point[1]))
    # Labels that say something, as a record may have them: cut, and with "?" for what cannot be printed.
    texts: dict[str, str] = {}
    for name, text in labels.items():
        if not _NO_TEXT.fullmatch(text):
            most = _MOST_UID if name.lower().endswith("uid") else _MOST_TEXT
            texts[name] = (text if text.isprintable() else printable_text(text))[:most]
    return ScrapedSeries(texts, tuple(sorted(points.items())), no_numbers=no_numbers)


def without_impossible(series: ScrapedSeries) -> ScrapedSeries:
    """Take what no machine has out of the points of a memory or a counter, such as the 2^64 of a memory that
    fell below zero."""
    name = series.labels.get("__name__", "")
    most = _MOST_BYTES if _MEMORY(name) else _MOST_COUNTED if name.endswith("_total") else None
    if most is None or all(0 <= value < most for _, value in series.points):
        return series
    points = tuple(point for point in series.points if 0 <= point[1] < most)
    impossible = tuple(point for point in series.points if not 0 <= point[1] < most)
    return replace(series, points=points, no_numbers=series.no_numbers + impossible)


def without_replicas(series: Sequence[ScrapedSeries]) -> list[ScrapedSeries]:
    """Return what several replicas of Prometheus scraped, each series once, without the replica's label.

    The first replica counts; where it misses a scrape, the next takes over. Points are not mixed: two scrapes
    of one moment would look like twice as many. What is no number is kept of all replicas, to be counted.
    """
    of_replicas = frozenset(name for scraped in series for name in scraped.labels if _REPLICA.fullmatch(name))
    if not of_replicas:
        return list(series)
    merged = []

    def without(labels: SeriesLabels) -> SeriesLabels:
        return {name: text for name, text in labels.items() if name not in of_replicas}

    for replicas in _alike(series, lambda labels: frozenset(without(labels).items())):
        labels = without(replicas[0].labels)
        no_numbers = sorted(point for replica in replicas for point in replica.no_numbers)
        merged.append(ScrapedSeries(labels, _merged(replicas), no_numbers=tuple(no_numbers)))
    return merged


def without_second_scrapes(
    series: Sequence[ScrapedSeries], key_of: Callable[[SeriesLabels], Hashable]
) -> list[ScrapedSeries]:
    """Return each series once where several scrapes, exporters or servers have it, as the first of them has
    it; see ``without_replicas``. Sums over the series of a container or a CPU would be too high else.

    ``key_of`` tells from labels what is measured: a scrape adds whatever labels it likes.
    """
    groups = _alike(series, key_of)
    return [of[0] if len(of) == 1 else replace(of[0], points=_merged(of)) for of in groups]


def without_server(labels: SeriesLabels) -> Hashable:
    """Return the labels but for those of the server that scraped."""
    return frozenset((name, text) for name, text in labels.items() if name not in _OF_SERVER)


def _alike(
    series: Iterable[ScrapedSeries], key_of: Callable[[SeriesLabels], Hashable]
) -> list[list[ScrapedSeries]]:
    """Return series of one key together, in the order of their labels."""
    groups: dict[Hashable, list[ScrapedSeries]] = {}
    for scraped in series:
        groups.setdefault(key_of(scraped.labels), []).append(scraped)
    for of in groups.values():
        if len(of) > 1:
            of.sort(key=lambda scraped: sorted(scraped.labels.items()))
    return list(groups.values())


def _merged(replicas: list[ScrapedSeries]) -> tuple[Point, ...]:
    of = [replica.points for replica in replicas if replica.points]
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


def samples_after(series: ScrapedSeries, start_ms: int, gap_ms: float) -> Iterator[NewSample]:
    """Yield all samples after ``start_ms``; the points before it serve the first rate alone.

    After a gap of more than ``gap_ms`` a series begins anew: no rate is taken over it.
    """
    last_ms: int | None = None
    growth = Growth()
    for point in series.points:
        if last_ms is not None and point[0] - last_ms > gap_ms:
            last_ms, growth = None, Growth()
        sample = _sample(series.labels, last_ms, growth, point)
        last_ms = point[0]
        if point[0] > start_ms:
            if series.highs is not None or series.per_s is not None:
                high, per_s = (series.highs or {}).get(point[0]), (series.per_s or {}).get(point[0])
                sample = replace(sample, high=high, per_s=sample.per_s if per_s is None else per_s)
            if series.lengths_ms and point[0] in series.lengths_ms:
                sample = replace(sample, passed_ms=series.lengths_ms[point[0]])
            yield sample


def _sample(labels: SeriesLabels, last_ms: int | None, growth: Growth, point: Point) -> NewSample:
    ts_ms, value = point
    grown = growth.add(value)
    if last_ms is None:
        return NewSample(labels, ts_ms, value)
    passed_ms = ts_ms - last_ms
    return NewSample(labels, ts_ms, value, passed_ms, None if grown is None else grown / passed_ms * 1000)


class ScrapeCursor:
    """Gives each sample out once. So what stopped being scraped is absent at once, and never repeated."""

    def __init__(self) -> None:
        self._last: dict[tuple[tuple[str, str], ...], tuple[int, Growth]] = {}

    def of(self, series: Iterable[ScrapedSeries]) -> list[NewSample]:
        """Return the new samples of an answer; series that ended a quarter of an hour ago are forgotten."""
        new_samples = []
        for scraped in series:
            key = tuple(sorted(scraped.labels.items()))
            last = self._last.get(key)
            if not scraped.points or (last is not None and scraped.points[-1][0] <= last[0]):
                continue
            last_ms, growth = last or (None, Growth())
            if last is None:
                for ts_ms, value in scraped.points[:-1]:
                    last_ms, _ = ts_ms, growth.add(value)
            self._last[key] = scraped.points[-1][0], growth
            new_samples.append(_sample(scraped.labels, last_ms, growth, scraped.points[-1]))
        if new_samples:
            newest = max(sample.ts_ms for sample in new_samples)
            self._last = {key: last for key, last in self._last.items() if newest - last[0] < _FORGOTTEN_MS}
        return new_samples
