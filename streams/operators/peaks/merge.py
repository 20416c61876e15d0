"""Merges tallies over sources, GPUs and pods. The result does not depend on their order."""

from collections.abc import Iterable, Mapping
from math import fsum

from dutycycle.contract.records.derived import Peak, Totals
from dutycycle.contract.records.parts import Tallies, Tally
from dutycycle.contract.units import Number
from streams.operators.peaks.histogram import merged, percentile
from streams.operators.rounding import tidy


def merge_tally(tallies: Iterable[Tally]) -> Tally:
    """Return one tally for several, at least one: the largest maximum (the earliest of equal ones), sums and
    counts added, those of histograms too.

    ``math.fsum`` rounds once, so that the order makes no difference.
    """
    every = list(tallies)
    if len(every) == 1:
        return every[0]
    high = max(every, key=lambda tally: (tally.max, -tally.at_ms))
    total = tidy(fsum(tally.sum for tally in every))
    histograms = [tally.histogram for tally in every if tally.histogram is not None]
    return Tally(
        max=high.max, at_ms=high.at_ms, sum=total, count=sum(tally.count for tally in every),
        histogram=merged(histograms) if histograms else None,
    )  # fmt: skip


def merge_tallies(many: Iterable[Tallies]) -> dict[str, Tally]:
    """Return tallies by metric for several such, in the order of the metrics' names."""
    by_metric: dict[str, list[Tally]] = {}
    for tallies in many:
        for metric, tally in tallies.items():
            by_metric.setdefault(metric, []).append(tally)
    return {metric: merge_tally(by_metric[metric]) for metric in sorted(by_metric)}


def merge_scopes(many: Iterable[Mapping[str, Tallies]]) -> dict[str, dict[str, Tally]]:
    """Return tallies by scope (GPU or process) for several such, in the order of the scopes."""
    by_scope: dict[str, list[Tallies]] = {}
    for scopes in many:
        for scope, tallies in scopes.items():
            by_scope.setdefault(scope, []).append(tallies)
    return {scope: merge_tallies(by_scope[scope]) for scope in sorted(by_scope)}


def merge_totals(many: Iterable[Totals | None]) -> dict[str, float]:
    """Return the sums of what was used, by name, to a millionth.

    A node forgets a pod that has gone once its part is sent, and may see it again: into how many parts its
    use falls depends on when that was, and so do the last digits of their sums.
    """
    by_name: dict[str, list[float]] = {}
    for totals in many:
        for name, value in (totals or {}).items():
            by_name.setdefault(name, []).append(value)
    return {name: tidy(round(fsum(by_name[name]), 6)) for name in sorted(by_name)}


def to_peaks(tallies: Tallies) -> dict[str, Peak]:
    """Return peaks by metric. A metric that was seen in bursts alone has no mean: its maximum stands in."""
    peaks = {}
    for metric, tally in tallies.items():
        mean = tally.sum / tally.count if tally.count else tally.max
        p95: Number | None = None if tally.histogram is None else percentile(tally.histogram, 95)
        if p95 is not None:  # its bucket may exceed the maximum
            p95 = min(tidy(float(p95)), tally.max)
        peaks[metric] = Peak(max=tally.max, mean=tidy(float(mean)), at_ms=tally.at_ms, p95=p95)
    return peaks
