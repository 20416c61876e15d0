"""Finds the cycles of a run: not only those that go on at its end, but all that there were, and for how
long."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from dutycycle.report.charts.chart import LINES_OF_CYCLE
from dutycycle.report.gather import Gathered, Plain
from dutycycle.report.view import GpuView, View
from dutycycle.words import digits

STEPS = ("gpu_util_pct", "tensor_active_pct", "dram_active_pct")
"""What shows the steps of a run on its GPUs, the metric that counts most first."""
FOLD_PERIODS = 30
_SEEN_PERIODS = 2
"""A cycle is told after so many of its periods. Only of the main one it is told since when it is there."""
_SAME = 0.05
"""Periods that differ by less than this share are one."""
_MOST = 4


@dataclass(slots=True)
class Period:
    """Holds one period of a series: from when to when it was there, of that so many ``seconds``.
    ``newest_s``: its length as it was told last."""

    first_ms: int
    last_ms: int
    seconds: float = 0.0
    confidence: float = 0.0
    newest_s: float = 0.0
    _weighted: float = field(default=0.0, repr=False)

    @property
    def period_s(self) -> float:
        """Return its length in seconds: the mean over the time."""
        return self._weighted / self.seconds

    def lasted(self, begin_ms: int, end_ms: int, period_s: float, confidence: float) -> None:
        """Note that it was there from ``begin_ms`` to ``end_ms``. What began before it was known is counted,
        too."""
        before_ms = max(self.first_ms - begin_ms, 0)
        seconds = (before_ms + end_ms - max(begin_ms, self.last_ms)) / 1000
        self.first_ms, self.last_ms = self.first_ms - before_ms, end_ms
        self.seconds += seconds
        self.confidence = max(self.confidence, confidence)
        self._weighted += seconds * period_s
        self.newest_s = period_s


@dataclass(frozen=True, slots=True)
class SeriesCycles:
    """Holds the periods of one series, the one that lasted longest first. ``name``: its subject's; ``pods``:
    the uids of those whose load it is, none of a node's. ``source``: ``nvml`` or ``cgroup``."""

    name: str
    periods: list[Period]
    pods: frozenset[str] = frozenset()
    source: str = "nvml"

    def __str__(self) -> str:
        return ", ".join(f"{digits(period.period_s)} s" for period in self.periods)

    def mark(self) -> tuple[str, int, int, float]:
        """Return what a chart says of it, and from when to when it marks which period: the shortest to be
        seen."""
        to_see = [
            period
            for period in self.periods
            if (period.last_ms - period.first_ms) / 1000 / period.period_s <= LINES_OF_CYCLE
        ]
        marked = min(to_see, key=lambda period: period.period_s, default=self.periods[0])
        return f"cycle {self} ({self.name})", marked.first_ms, marked.last_ms, marked.period_s


def cycles_of(gathered: Gathered, view: View, metric: str) -> list[SeriesCycles]:
    """Return the cycles of a metric, of each subject that had any, the one that lasted longest first."""
    whose = {f"{key}/nvml": (name, _pods_of(gathered, key)) for key, name in view.subjects.items()}
    whose |= {
        f"{machine.key}/cgroup": (machine.name, _pods_of(gathered, machine.key)) for machine in view.machines
    }
    whose |= {
        f"gpu/{gpu.traced.node}/{gpu.traced.uuid}/nvml": (gpu.name, frozenset(gpu.traced.users))
        for gpu in view.gpus
    }
    cycles = [
        SeriesCycles(name, periods, pods, key.rpartition("/")[2])
        for key, (name, pods) in whose.items()
        if (periods := periods_of(gathered.cycles.get(key, ()), metric, view.first_ms, view.last_ms))
    ]
    return sorted(cycles, key=lambda cycle: -cycle.periods[0].seconds)


@dataclass(frozen=True, slots=True)
class ShownCycle:
    """Describes a period that ticks can show, of ``gpus`` whose it is, and from when to when it is folded.
    ``name``: its subject's."""

    name: str
    metric: str
    period_s: float
    gpus: list[GpuView]
    from_ms: float
    to_ms: int


def shown_cycle(gathered: Gathered, view: View) -> ShownCycle | None:
    """Choose the cycle that charts fold: of the first of ``STEPS`` that has one, the shortest that the ticks
    can show, and its last ``FOLD_PERIODS``."""
    tick_s = max((gpu.ticks.step_ms for gpu in view.gpus[:1]), default=0) / 1000
    for metric in STEPS:
        for cycle in cycles_of(gathered, view, metric)[:1]:
            possible = [
                period
                for period in cycle.periods
                if period.period_s >= 4 * max(tick_s, 0.001)
                and period.last_ms - view.first_ms >= 1000 * period.newest_s
            ]
            gpus = [gpu for gpu in view.gpus if not cycle.pods.isdisjoint(gpu.traced.users)] or view.gpus
            if possible and gpus:
                period = min(possible, key=lambda period: period.period_s)
                # The mean of all that was told would not meet the newest periods, which are folded.
                period_ms = period.newest_s * 1000
                seen_ms = min(period.first_ms, period.last_ms - _SEEN_PERIODS * period_ms)
                from_ms = max(seen_ms, period.last_ms - FOLD_PERIODS * period_ms, view.first_ms)
                return ShownCycle(cycle.name, metric, period.newest_s, gpus, from_ms, period.last_ms)
    return None


def _pods_of(gathered: Gathered, key: str) -> frozenset[str]:
    kind, _, uid = key.partition("/")
    if kind == "job":
        pods = gathered.identities.values()
        return frozenset(pod.uid for pod in pods if pod.job is not None and pod.job.uid == uid)
    return frozenset({uid} if kind == "pod" else ())


def periods_of(records: Iterable[Plain], metric: str, first_ms: int, last_ms: int) -> list[Period]:
    """Return what the records of one subject say of a metric from ``first_ms`` to ``last_ms``, each until the
    next; the period that lasted longest comes first."""
    of_metric = [record for record in records if metric in record["metrics"]]
    ends = [*(record["ts_ms"] for record in of_metric), last_ms][1:]
    periods: list[Period] = []
    for record, end_ms in zip(of_metric, ends, strict=True):
        # Of the main cycle a record says since when it is there, of the others not.
        cycle = record["metrics"][metric]
        cycles = [(other, record["ts_ms"]) for other in cycle.get("others", ())]
        if "period_s" in cycle:
            cycles.insert(0, (cycle, cycle.get("since_ms", record["ts_ms"])))
        for of_cycle, since_ms in cycles:
            period_s, confidence = of_cycle["period_s"], of_cycle.get("confidence", 0.0)
            begin_ms, end_ms = max(since_ms, first_ms), min(end_ms, last_ms)
            known = next((it for it in periods if abs(it.period_s - period_s) <= _SAME * period_s), None)
            if begin_ms >= end_ms or (known and known.last_ms >= end_ms):
                continue
            if known is None:
                known = Period(begin_ms, begin_ms)
                periods.append(known)
            known.lasted(begin_ms, end_ms, period_s, confidence)
    return sorted(periods, key=lambda period: -period.seconds)[:_MOST]
