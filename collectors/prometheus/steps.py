"""Makes one sample a step: what is known of the whole step, and not of its last instant alone. Pure.

Utilization and power are means, utilization has its maximum as well, counters have their growth; what is left
is the newest value of the step. Who holds a GPU may change within a step: then each holder has its own part.
A step in which an exporter came, or left, is as long as it was there.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from collectors.prometheus.containers import CPU, PERIODS, READ, RECEIVED, SENT, THROTTLED, WRITTEN
from collectors.prometheus.dcgm.fields import Vocabulary
from collectors.prometheus.host import HOST_COUNTERS
from collectors.prometheus.identity.labels import Target, target_of
from collectors.prometheus.series import ScrapedSeries, SeriesLabels
from collectors.rates import Growth

COUNTERS: Mapping[str, frozenset[str]] = {
    "containers": frozenset({CPU, PERIODS, THROTTLED, READ, WRITTEN, RECEIVED, SENT}),
    "hosts": frozenset(HOST_COUNTERS),
}
"""By what is asked for: metrics that only grow."""
_MOST_PCT = 100
_Key = tuple[tuple[str, str], ...]
Counts = Mapping[_Key, Mapping[int, float]]
"""Of the series with these labels: by the end of a step how many samples it had in it."""


@dataclass(slots=True)
class StepAnswers:
    """Holds what was computed of each step, by metric: ``means``, ``highs`` and ``counts`` of samples of
    GPUs, and ``increases`` of counters, by what is asked for as well."""

    means: dict[str, list[ScrapedSeries]] = field(default_factory=dict)
    highs: dict[str, list[ScrapedSeries]] = field(default_factory=dict)
    counts: dict[str, list[ScrapedSeries]] = field(default_factory=dict)
    increases: dict[tuple[str, str], list[ScrapedSeries]] = field(default_factory=dict)


def names_of(series: Iterable[ScrapedSeries], wanted: Iterable[str]) -> list[str]:
    """Tell which of the ``wanted`` metrics there are."""
    names = {scraped.labels.get("__name__", "") for scraped in series}
    return sorted(names.intersection(wanted))


def of_steps(
    newest: Mapping[str, Sequence[ScrapedSeries]], answers: StepAnswers, step_s: int, vocabulary: Vocabulary
) -> dict[str, list[ScrapedSeries]]:
    """Return the newest values of each step, with what is known of the whole step in their place or beside
    them."""
    series_by_what = {what: list(series) for what, series in newest.items()}
    for (what, name), increases in answers.increases.items():
        grown = dict(_by_labels(increases))
        series_by_what[what] = [
            replace(scraped, per_s=_per_s(scraped, grown.get(_key(scraped.labels), {}), step_s))
            if scraped.labels["__name__"] == name
            else scraped
            for scraped in series_by_what[what]
        ]
    means, highs, counts = (
        dict(_by_labels(scraped for of in by_name.values() for scraped in of))
        for by_name in (answers.means, answers.highs, answers.counts)
    )
    gpus = []
    for scraped in series_by_what["gpus"]:
        key = _key(scraped.labels)
        if key in means:
            # A value that no GPU has, or that is no number, spoils the mean of its step, and stands there
            # itself: so it is left out, and counted.
            spoiled = {
                ts_ms: high
                for ts_ms, high in highs.get(key, {}).items()
                if high > _MOST_PCT or vocabulary.read(scraped.labels, high) is None
            }
            values = [
                (ts_ms, spoiled.get(ts_ms, means[key].get(ts_ms, value))) for ts_ms, value in scraped.points
            ]
            scraped = replace(
                scraped,
                points=tuple(point for point in values if isfinite(point[1])),
                highs=highs.get(key) or None,
                no_numbers=scraped.no_numbers + tuple(point for point in values if not isfinite(point[1])),
            )
        gpus.append(scraped)
    series_by_what["gpus"] = _Turns(gpus, counts, 1000 * step_s, vocabulary).applied()
    return series_by_what


def _per_s(series: ScrapedSeries, grown: Mapping[int, float], step_s: int) -> dict[int, float]:
    """Return the growth per second of the steps of a counter of which the newest values do not tell it: of
    the first, of those after a gap, and where it fell. A value that could not be read is a reset for
    Prometheus, after which the whole counter has grown: what is more than it grew until it was back is left
    out."""
    growth, last_ms, settled = Growth(), 0, 0.0
    unused: set[int] = set()
    fallen: list[int] = []
    for ts_ms, value in series.points:
        if ts_ms - last_ms != 1000 * step_s:
            growth, settled, fallen = Growth(), value, []
            growth.add(value)
        elif growth.add(value) is not None:
            unused.add(ts_ms)
            settled, fallen = value, []
        else:
            fallen.append(ts_ms)
            if value >= settled:
                unused |= {at_ms for at_ms in fallen if grown.get(at_ms, 0) > value - settled}
                settled, fallen = value, []
        last_ms = ts_ms
    return {
        ts_ms: value / step_s for ts_ms, value in grown.items() if ts_ms not in unused and isfinite(value)
    }


class _Turns:
    """Divides series that differ in who holds the device alone, and that share a step by time and not the
    device.

    Each has the end of its own part of the step as its time. The other GPUs of the exporter have a sample
    there as well, for a record is of all GPUs of its node. What an exporter was there for of a step is told
    by how many samples it has in it, and how many it has in others.
    """

    def __init__(
        self, series: Sequence[ScrapedSeries], counts: Counts, step_ms: int, vocabulary: Vocabulary
    ) -> None:
        self._series = series
        self._vocabulary = vocabulary
        self._step_ms = step_ms
        self._parts: dict[tuple[_Key, int], tuple[int, int]] = {}
        """By holder and step: when its part begins and ends."""
        self._spans: dict[tuple[Target, int], tuple[int, int]] = {}
        """By exporter and step: when it came and left, where it was not there in all of the step."""
        self._between: dict[tuple[Target, int], set[int]] = defaultdict(set)
        of_devices: dict[_Key, dict[_Key, ScrapedSeries]] = defaultdict(dict)
        usual: dict[Target, float] = defaultdict(float)
        meters: dict[_Key, Mapping[int, float]] = {}
        for scraped in series:
            if self._is_meter(scraped):
                meters[_holder(scraped.labels)] = dict(scraped.points)
            if of := counts.get(_key(scraped.labels)):
                names = ("uuid", "gpu_i_id", "job", "instance")  # a GPU, or a slice, as one target shows it
                device = tuple(sorted(part for part in scraped.labels.items() if part[0].lower() in names))
                of_devices[device].setdefault(_holder(scraped.labels), scraped)
                usual[target_of(scraped.labels)] = max(usual[target_of(scraped.labels)], *of.values())
        self._learn_spans(of_devices.values(), counts, usual)
        for of_holders in of_devices.values():
            in_order = sorted(
                of_holders.values(), key=lambda scraped: (scraped.points[0][0], scraped.points[-1][0])
            )
            target = target_of(in_order[0].labels)
            most = usual[target] + 1
            for ts_ms in sorted({ts_ms for scraped in in_order for ts_ms, _ in scraped.points}):
                there = {
                    _holder(scraped.labels): number
                    for scraped in in_order
                    if (number := counts[_key(scraped.labels)].get(ts_ms))
                }
                if len(there) > 1 and sum(there.values()) <= most:  # else they share it
                    # In the order of their last samples in the step, as the device's energy counter tells. A
                    # GPU is nobody's again and again: when its holders were first and last seen says nothing
                    # of one step.
                    joules = {holder: meters.get(holder, {}).get(ts_ms, 0) for holder in there}
                    if all(joules.values()):
                        there = dict(sorted(there.items(), key=lambda part: joules[part[0]]))
                    start_ms, last_ms = self._span(target, ts_ms)
                    begin_ms, total, so_far = start_ms, sum(there.values()), 0.0
                    for holder, count in there.items():
                        so_far += count
                        end_ms = start_ms + round((last_ms - start_ms) * so_far / total)
                        self._parts[holder, ts_ms] = begin_ms, end_ms
                        self._between[target, ts_ms].add(end_ms)
                        begin_ms = end_ms

    def _learn_spans(
        self, devices: Iterable[Mapping[_Key, ScrapedSeries]], counts: Counts, usual: Mapping[Target, float]
    ) -> None:
        step_ms = self._step_ms
        samples: dict[Target, dict[int, float]] = defaultdict(dict)
        """By exporter and step: the most that one of its devices has."""
        for of_holders in devices:
            of_device: dict[int, float] = defaultdict(float)
            for holder in of_holders.values():
                for ts_ms, count in counts[_key(holder.labels)].items():
                    of_device[ts_ms] += count
            known = samples[target_of(next(iter(of_holders.values())).labels)]
            for ts_ms, count in of_device.items():
                known[ts_ms] = max(known.get(ts_ms, 0), count)
        for target, known in samples.items():
            for ts_ms, count in known.items():
                length_ms = round(step_ms * count / usual[target])
                comes, goes = ts_ms - step_ms not in known, ts_ms + step_ms not in known
                if length_ms < step_ms and comes:
                    self._spans[target, ts_ms] = ts_ms - length_ms, ts_ms
                elif length_ms < step_ms and goes:
                    self._spans[target, ts_ms] = ts_ms - step_ms, ts_ms - step_ms + length_ms

    def _span(self, target: Target, ts_ms: int) -> tuple[int, int]:
        return self._spans.get((target, ts_ms), (ts_ms - self._step_ms, ts_ms))

    def applied(self) -> list[ScrapedSeries]:
        """Return the series with their new times."""
        if not self._parts and not self._spans:
            return list(self._series)
        applied = []
        for series in self._series:
            holder, target = _holder(series.labels), target_of(series.labels)
            is_meter = self._is_meter(series)
            points: dict[int, float] = {}
            highs: dict[int, float] = {}
            lengths_ms: dict[int, int] = {}
            for ts_ms, value in series.points:
                begin_ms, end_ms = self._parts.get((holder, ts_ms)) or self._span(target, ts_ms)
                times = {end_ms}
                if not is_meter:
                    between = self._between.get((target, ts_ms), ())
                    times.update(moment_ms for moment_ms in between if begin_ms < moment_ms < end_ms)
                points |= dict.fromkeys(times, value)
                if (target, ts_ms) in self._spans:
                    lengths_ms[min(times)] = min(times) - begin_ms
                if series.highs and ts_ms in series.highs:
                    highs |= dict.fromkeys(times, series.highs[ts_ms])
            in_order = tuple(sorted(points.items()))
            applied.append(
                replace(series, points=in_order, highs=highs or None, lengths_ms=lengths_ms or None)
            )
        return applied

    def _is_meter(self, series: ScrapedSeries) -> bool:
        return self._vocabulary.field_of(series.labels["__name__"]) == "energy_j"


def _holder(labels: SeriesLabels) -> _Key:
    """Return all that is the same in the metrics of one device and holder."""
    return tuple(sorted((name, text) for name, text in labels.items() if name != "__name__"))


def _key(labels: SeriesLabels) -> _Key:
    return tuple(sorted(labels.items()))


def _by_labels(series: Iterable[ScrapedSeries]) -> Iterator[tuple[_Key, dict[int, float]]]:
    for scraped in series:
        # What one replica of Prometheus has as a number is known, whatever another has.
        yield _key(scraped.labels), dict(scraped.no_numbers + scraped.points)
