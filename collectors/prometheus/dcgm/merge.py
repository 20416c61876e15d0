"""Merges several exporters that show the same GPU into one source. Pure.

One of them may know pods and the other not, or each may have metrics of its own. So one exporter of a GPU
speaks first: the one that names pods. Another fills in the fields that it lacks, at its moments, and all of
them while it is away.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median

from collectors.prometheus.dcgm.fields import Vocabulary
from collectors.prometheus.identity.exporters import Exporters
from collectors.prometheus.identity.labels import Target, target_of
from collectors.prometheus.series import ScrapedSeries

_LONGEST_SCRAPE_MS = 60_000
"""Between two scrapes, where there is only one of them."""
_Part = tuple[str, str]
"""A MIG instance, empty for the GPU itself, and a field."""


def merge_exporters(
    series: Sequence[ScrapedSeries], vocabulary: Vocabulary, exporters: Exporters
) -> list[ScrapedSeries]:
    """Return the series, with the points of each GPU as one exporter gives them."""
    by_gpu: dict[str, dict[Target, list[ScrapedSeries]]] = defaultdict(lambda: defaultdict(list))
    merged: list[ScrapedSeries] = []
    for scraped in series:
        if uuid := scraped.labels.get("UUID"):
            by_gpu[uuid][target_of(scraped.labels)].append(scraped)
        else:
            merged.append(scraped)
    for sources in by_gpu.values():
        naming = {
            target
            for target, of in sources.items()
            if any(exporters.holder_of(scraped.labels) is not None for scraped in of)
        }
        order = sorted((target not in naming, -len(of), target) for target, of in sources.items())
        first, *others = (target for _, _, target in order)
        merged += sources[first]
        times = sorted({ts_ms for scraped in sources[first] for ts_ms, _ in scraped.points})
        known = {_part(scraped, vocabulary) for scraped in sources[first]}
        for other in others:
            fitted = [_fit(scraped, times, _part(scraped, vocabulary) in known) for scraped in sources[other]]
            merged += [scraped for scraped in fitted if scraped.points]
            known |= {_part(scraped, vocabulary) for scraped in sources[other]}
    return merged


def _part(series: ScrapedSeries, vocabulary: Vocabulary) -> _Part:
    return series.labels.get("GPU_I_ID", ""), vocabulary.field_of(series.labels["__name__"])


def _fit(series: ScrapedSeries, times: Sequence[int], is_known: bool) -> ScrapedSeries:
    """Return the points that fill in for an exporter that was scraped at ``times``.

    While it is there: none of a field that it has; of others the newest before each of its scrapes, with the
    time of that. While it is away: all.
    """
    steps = [after - before for before, after in pairwise(times)]
    gap_ms = 1.5 * (median(steps) if steps else _LONGEST_SCRAPE_MS)
    points: dict[int, float] = {}
    for ts_ms, value in series.points:
        at = bisect_left(times, ts_ms)
        is_away = all(abs(time_ms - ts_ms) > gap_ms for time_ms in times[max(0, at - 1) : at + 1])
        if is_away:
            points[ts_ms] = value
        elif not is_known and at < len(times):
            points[times[at]] = value
    return replace(series, points=tuple(points.items()))
