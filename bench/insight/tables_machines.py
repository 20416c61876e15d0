"""Cycles of machines: metrics of several GPUs that run one job, with and without the driver's samples."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.generators_machines import KINDS, METRICS, Run, machine_run
from bench.insight.report import Cell, TableReport
from dutycycle.contract.records.derived import CycleMetric, OtherCycle
from dutycycle.experiments.scores.cycles import is_close
from streams.operators.cycles.scales import CycleScales

START_MS = 1_700_000_000_000
EVERY = 10
TIMES = {"slow_with_texture": 20, "wandering": 40}
"""Machines of a kind on one seed, where what is wrong is rare; of the others ``TIMES_OF_OTHERS``."""
TIMES_OF_OTHERS = 10
COLUMNS = (
    "job", "samples", "series", "found %", "GPUs %", "in periods", "9 of 10", "kept %", "wrong in 1,000 h",
    "wrong %", "changes/h",
)  # fmt: skip

Said = list[tuple[int, list[float]]]
"""(second, the periods that are told from then on), of one series."""


@dataclass(frozen=True, slots=True)
class Watched:
    """What was said of one series of a run."""

    run: Run
    said: Said
    gpu: int

    def seconds(self, counts: Callable[[list[float]], bool]) -> list[int]:
        """How long each answer that ``counts`` stood, while the job ran."""
        ends = [second for second, _ in self.said[1:]] + [len(self.run.series)]
        spans = [
            min(end, self.run.end) - max(second, self.run.begin)
            for (second, periods), end in zip(self.said, ends, strict=False)
            if counts(periods)
        ]
        return [span for span in spans if span > 0]

    def is_right(self, periods: Sequence[float]) -> bool:
        """Whether all that is wanted is there."""
        wanted = self.run.periods[: self.run.wanted]
        return bool(wanted) and all(any(is_close(one, true) for one in periods) for true in wanted)

    def is_wrong(self, periods: Sequence[float]) -> bool:
        """Whether anything is there that is not in the job."""
        return any(not any(is_close(one, true) for true in self.run.periods) for one in periods)

    @property
    def found_s(self) -> int | None:
        """When it was first right."""
        return next((second for second, periods in self.said if self.is_right(periods)), None)


def evaluated(run: Run, *, bursts: bool) -> Iterator[tuple[int, CycleScales, list[tuple[int, CycleMetric]]]]:
    """Feed a run second by second: each second, with the scales and what has changed in it, by series."""
    size, count = len(METRICS), run.series.shape[1]
    scales = CycleScales(count, witnesses=np.arange(count) // size * size)
    offsets = np.linspace(-1000, 0, run.bursts.shape[2] + 1)[1:]
    for second, row in enumerate(np.ascontiguousarray(run.series)):
        ts_ms = START_MS + 1000 * second
        quick = [
            (size * gpu, np.column_stack((offsets, values)))
            for gpu, values in enumerate(run.bursts[second] if bursts else ())
        ]
        scales.extend(np.array([ts_ms]), row[np.newaxis], 1000, [(ts_ms, quick)])
        yield second, scales, scales.changes(ts_ms) if second % EVERY == EVERY - 1 else []


def told_periods(period_s: float | None, others: Iterable[OtherCycle] | None) -> list[float]:
    """Return the periods that are told together, the main one first; none without it."""
    return [] if period_s is None else [period_s, *(other.period_s for other in others or ())]


def watched(run: Run, *, bursts: bool) -> list[Watched]:
    """Return what is said of each series of a run."""
    by_column: list[Said] = [[] for _ in range(run.series.shape[1])]
    for second, _, changes in evaluated(run, bursts=bursts):
        for column, cycle in changes:
            by_column[column].append((second, told_periods(cycle.period_s, cycle.others)))
    return [Watched(run, answers, column // len(METRICS)) for column, answers in enumerate(by_column)]


def machines(report: TableReport, seeds: range, thin: int = 1) -> None:
    """The table: one row a kind of job, without and with the driver's samples."""
    rows: list[list[Cell]] = []
    for kind in KINDS:
        count = max(TIMES.get(kind, TIMES_OF_OTHERS) * len(seeds) // thin, 1)
        runs = [machine_run(kind, seed) for seed in range(seeds.start, seeds.start + count)]
        for bursts in (False, True):
            each = [[*watched(run, bursts=bursts)] for run in runs]
            rows.append([kind, "driver's" if bursts else "ticks", *figures_of(each)])
    report.table(
        "cycles_machines", "cycles of machines with several GPUs, evaluated every 10 s", COLUMNS, rows
    )


def figures_of(each: Sequence[Sequence[Watched]]) -> list[Cell]:
    """The cells of ``COLUMNS`` from the series on, of what was said of the series of each run."""
    series = [one for run in each for one in run]
    hours = sum(one.run.end - one.run.begin for one in series) / 3600
    wrong = [seconds for one in series for seconds in one.seconds(one.is_wrong)]
    told: list[Cell] = [
        1000 * sum(seconds > EVERY for seconds in wrong) / hours, sum(wrong) / hours / 36,
        sum(len(one.said) for one in series) / hours,
    ]  # fmt: skip
    if not series[0].run.periods:
        return [len(series), None, None, None, None, None, *told]
    found = [(one, second) for one in series if (second := one.found_s) is not None]
    gpus = {(number, one.gpu) for number, run in enumerate(each) for one in run}
    of_gpus = {(number, one.gpu) for number, run in enumerate(each) for one in run if one.found_s is not None}
    delays = [(second - one.run.begin) / max(one.run.periods[: one.run.wanted]) for one, second in found]
    kept = sum(sum(one.seconds(one.is_right)) for one, _ in found)
    after = sum(max(one.run.end - second, 1) for one, second in found)
    return [
        len(series), 100 * len(found) / len(series), 100 * len(of_gpus) / len(gpus),
        *(float(one) for one in np.quantile(delays or [np.nan], (0.5, 0.9), method="higher")),
        100 * kept / max(after, 1), *told,
    ]  # fmt: skip
