"""Compares the ranks of a job: what each pod sends for it, how far apart ranks are, and when that changed.

Ranks are compared by means over the same three minutes. So each pod takes a *rank sample* at the same
moments, and its figures change only when they moved by enough to matter.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dutycycle.contract.records.parts import JobInsightPart
from dutycycle.contract.units import Number
from streams.operators.workload.rules.stats import three_digits

COMPARED_METRICS = ("gpu_util_pct", "power_pct")
"""Kernels that wait for other ranks keep the utilization high, but the power low."""
RANK_SAMPLE_MS = 180_000
"""Time between rank samples, aligned to the Unix epoch. A job gets a part from each of its pods at each."""
PAST_METRICS = ("warmer_c", "clock_lower_pct", "power_lower_pct")
"""How far a rank is from its own past: what all ranks have in common is no fault of one."""
_CHANGED_PCT = 10.0
"""Figures that moved by less, in percent or degrees, stay as they were."""
_REFRESH_MS = 900_000
_REFRESH_PCT = 2.5
"""At every quarter of an hour a smaller difference counts, so that figures are not off for longer."""


@dataclass(slots=True)
class RankSamples:
    """Keeps a pod's figures for the comparison at the last two sample times.

    ``figures``, ``before``: means in percent by metric of ``COMPARED_METRICS``. ``changed_ms``: the sample
    time at which ``figures`` last changed, 0 before the first. ``sample_ms``: the last sample time.
    """

    figures: dict[str, Number] = field(default_factory=dict)
    before: dict[str, Number] = field(default_factory=dict)
    changed_ms: int = 0
    sample_ms: int = 0

    def is_due(self, ts_ms: int) -> bool:
        """Tell whether a sample time has passed since the last. The first call only begins: False."""
        sample_ms = ts_ms - ts_ms % RANK_SAMPLE_MS
        if self.sample_ms == 0:
            self.sample_ms = sample_ms
        return sample_ms > self.sample_ms

    def add(self, ts_ms: int, recent: Mapping[str, float]) -> None:
        """Take the pod's means over the minutes before ``ts_ms``, at which a sample is due."""
        self.sample_ms = ts_ms - ts_ms % RANK_SAMPLE_MS
        now = {
            name: three_digits(recent[name]) for name in (*COMPARED_METRICS, *PAST_METRICS) if name in recent
        }
        self.before = self.figures
        allowed = _REFRESH_PCT if self.sample_ms % _REFRESH_MS == 0 else _CHANGED_PCT
        if now.keys() != self.figures.keys() or any(
            abs(now[name] - self.figures[name]) > allowed for name in now
        ):
            self.figures, self.changed_ms = now, self.sample_ms


def largest_gap(parts: Iterable[JobInsightPart]) -> tuple[float, str, str]:
    """Return the largest difference between two pods in any compared metric, in percentage points, and the
    names of the pod that does less and of the one that does more. 0 and empty names for fewer than two
    pods."""
    widest = (0.0, "", "")
    ranks = list(aligned(list(parts)))
    for name in COMPARED_METRICS:
        known = sorted((figures[name], pod) for pod, figures in ranks if name in figures)
        if len(known) > 1:
            widest = max(widest, (known[-1][0] - known[0][0], known[0][1], known[-1][1]))
    return widest


def aligned(parts: list[JobInsightPart]) -> Iterator[tuple[str, Mapping[str, Number]]]:
    """Yield each pod's name, and its figures at the newest sample time that all of them have reached."""
    times = {part.rank_sample_ms for part in parts if part.rank_sample_ms}
    newest_ms, together = max(times, default=0), len(times) < 2
    for part in parts:
        now = together or part.rank_sample_ms < newest_ms
        before = part.rank_figures if part.rank_before is None else part.rank_before
        yield part.pod_name, part.rank_figures if now else before


@dataclass(slots=True)
class LatestChange:
    """Remembers when anything about a job's pods last changed: the time of the job's insight. It never goes
    back.

    Changes are a pod's insight, its end, and, in a job of several pods, another figure of a training rank.
    Pods that are gone count as well.
    """

    insight_ms: int = 0
    rank_ms: int = 0
    several: bool = False

    @property
    def ms(self) -> int:
        """Return Unix milliseconds; 0 before any change."""
        return max(self.insight_ms, self.rank_ms) if self.several else self.insight_ms

    def add(self, part: JobInsightPart, *, several: bool) -> bool:
        """Take a pod's part, old or new. True if it is the latest change. ``several``: the job has several
        pods."""
        before_ms = self.ms
        self.insight_ms = max(self.insight_ms, part.insight_ms, part.latest_end_ms)
        if part.kind == "training":
            self.rank_ms = max(self.rank_ms, part.rank_changed_ms)
        self.several = self.several or several
        return self.ms > before_ms
