"""How good the forecasts of a job are that are made of those of its ranks.

Each GPU of a machine stands for a pod. What is judged is what is published of the job, at most each half
minute, against the mean utilization of its GPUs that came: at one moment, and over the minute that begins
then, as a forecast of a job with a cycle is that of the mean. Persistence is the utilization of now.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bench.generators import Floats
from bench.generators_machines import METRICS, Run, machine_run
from bench.insight.report import Cell, TableReport
from bench.insight.tables_machines import EVERY, START_MS
from dutycycle.contract.codec import from_plain
from dutycycle.contract.records.derived import Forecast
from dutycycle.contract.records.parts import InsightPart, PodTrend
from streams.operators.columns.block import TickBlock
from streams.operators.columns.series import Series
from streams.operators.columns.tick import TickRow, make_layout
from streams.operators.node.analysis import AnalysisBank
from streams.operators.node.records import trends_of
from streams.operators.trends.bank import HORIZONS_S
from streams.operators.workload.channels import SPAN_MS
from streams.operators.workload.jobs.analysis import job_trends
from streams.operators.workload.join import JoinedSpan
from streams.operators.workload.rules.state import STATE_MS, StateTracker

UTIL = METRICS[0]
KINDS = (
    "fast_with_pauses", "short_dips", "slow_with_texture", "steps_with_checkpoints", "two_rhythms",
    "wandering",
)  # fmt: skip
"""The machines that run for long enough."""
TIMES = 4
"""Jobs of a kind on one seed."""
RECENT_S = 240
"""Seconds of utilization that a pod's insight has at hand."""
MINUTE_S = 60
COLUMNS = (
    "job", "jobs",
    *(f"{what} {horizon:.0f} s" for what in ("moment", "minute", "5-95 %") for horizon in HORIZONS_S),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Judged:
    """A forecast of a job, what was at its moment, what came, and over the minute from then on."""

    forecast: Forecast
    now: float
    moment: float
    minute: float


class _JobPods:
    """The pods of a job: what their node finds of them, and their states."""

    def __init__(self, run: Run) -> None:
        self._pods = [str(rank) for rank in range(run.bursts.shape[1])]
        self._series = [Series("pod", uid, metric) for uid in self._pods for metric in METRICS]
        self._layout = make_layout(self._series, [])
        self._offsets = np.linspace(-1000, 0, run.bursts.shape[2] + 1)[1:]
        self._bank = AnalysisBank()
        self._bank.resize(self._series)
        self._periods: dict[str, float | None] = {}
        self._trends: dict[str, PodTrend] = {}
        self._trackers = [StateTracker() for _ in self._pods]

    def add(self, ts_ms: int, row: Floats, bursts: Floats) -> None:
        """Take a tick of the ``METRICS`` of each pod, and the driver's samples of utilization."""
        quick = tuple(
            (series, np.column_stack((self._offsets, samples)))
            for series, samples in zip(self._series[:: len(METRICS)], bursts, strict=True)
        )
        block = TickBlock([TickRow("c", 0, ts_ms, 1000, self._layout, row, quick)])
        self._bank.extend(block, block.values)

    def evaluate(self, ts_ms: int, recent: Floats) -> None:
        """End a span, with so much utilization of the newest minutes: a row a second, a column a pod."""
        found = self._bank.evaluate(ts_ms)
        self._periods |= {one.member: cycle.period_s for one, cycle in found.cycles_of_subjects()}
        for (_, uid), metrics in trends_of(found).items():
            plain = {"ts_ms": ts_ms, "metrics": {UTIL: metrics[UTIL]}}
            self._trends[uid] = from_plain(PodTrend, plain, "trends")
        for uid, tracker, util in zip(self._pods, self._trackers, recent.T, strict=True):
            part = InsightPart(
                uid=uid, source="nvml", start_ms=ts_ms + 1000 - SPAN_MS, period_s=self._periods.get(uid),
                trend=self._trends.get(uid),
            )  # fmt: skip
            tracker.add(JoinedSpan(part, None), "training", None, util.round().astype(np.uint8))

    def published(self) -> tuple[int, tuple[Forecast, ...]]:
        """The forecasts of the job, and the second that they are of: that of the newest of its pods'."""
        states = [one.state for one in self._trackers if one.state is not None]
        found = job_trends([(1, state) for state in states], "nvml", 0)
        if UTIL not in found:
            return 0, ()
        newest_ms = max(one.trends["nvml"].ts_ms for one in states if one.trends is not None)
        return (newest_ms - START_MS) // 1000, found[UTIL].forecast


def judged(run: Run) -> Iterator[Judged]:
    """What was published of a job while it ran, if what came is known."""
    node, util = _JobPods(run), run.series[:, :: len(METRICS)]
    of_job, told_s = util.mean(axis=1), 0
    for second in range(run.end):
        ts_ms = START_MS + 1000 * second
        node.add(ts_ms, run.series[second], run.bursts[second])
        if second % EVERY != EVERY - 1:
            continue
        node.evaluate(ts_ms, util[max(second + 1 - RECENT_S, 0) : second + 1])
        since, forecasts = node.published()
        if (ts_ms + 1000) % STATE_MS or since == told_s:
            continue
        told_s = since
        for one in forecasts:
            after = since + round(one.horizon_s)
            minute = of_job[after : after + MINUTE_S]
            if since >= run.begin and after + MINUTE_S <= run.end:
                yield Judged(one, float(of_job[since]), float(minute[0]), float(minute.mean()))


def job_forecasts(report: TableReport, seeds: range, thin: int = 1) -> None:
    """The table: of each kind of job the error over persistence's, and how much came inside."""
    rows: list[list[Cell]] = []
    for kind in KINDS:
        count = max(TIMES * len(seeds) // thin, 1)
        runs = [machine_run(kind, seed) for seed in range(seeds.start, seeds.start + count)]
        each = [one for run in runs for one in judged(run)]
        parts = [[one for one in each if one.forecast.horizon_s == horizon] for horizon in HORIZONS_S]
        moment = [_error(part, [one.moment for one in part]) for part in parts]
        minute = [_error(part, [one.minute for one in part]) for part in parts]
        rows.append([kind, count, *moment, *minute, *map(_inside, parts)])
    title = "forecasts of the utilization of jobs: error over persistence's, and % of moments in the interval"
    report.table("job_forecasts", title, COLUMNS, rows)


def _error(part: list[Judged], truths: list[float]) -> float | None:
    off = sum(abs(one.now - truth) for one, truth in zip(part, truths, strict=True))
    ours = sum(abs(one.forecast.value - truth) for one, truth in zip(part, truths, strict=True))
    return ours / off if off else None


def _inside(part: list[Judged]) -> float | None:
    if not part:
        return None
    return 100 * float(np.mean([one.forecast.p05 <= one.moment <= one.forecast.p95 for one in part]))
