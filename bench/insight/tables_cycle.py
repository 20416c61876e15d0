"""How well cycles are found: ours beside its peers on the same cases, and how fast ours is.

A period within 5 % of the true one is a hit: jitter alone moves the mean period of five bursts by 2 %. A
wrong period is a false alarm and a miss at once. Ours was tuned on seeds 0-99.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.generators import CONTROLS, NAMED_CONTROLS, Case, Floats, controls, cyclic_cases
from bench.insight.peers_cycle import DETECTORS, Detector
from bench.insight.report import Cell, TableReport
from dutycycle.experiments.scores.cycles import f1 as cycle_f1
from dutycycle.experiments.scores.cycles import is_close
from streams.operators.cycles.bank import CycleBank
from streams.operators.cycles.detect.window import find_cycles

OURS = "Dutycycle"
BATCH = 24
"""Series evaluated together: about what one node has."""
COLUMNS = ("detector", "F1 whole", "F1 fract.", "alarms %", *NAMED_CONTROLS, "error %", "ms/series")
OURS_TIMES = 10
CONTROLS_PER_SEED = 4
"""So many of each control come on one seed, as false alarms are rare; the first counts for F1."""
EDGES = (0.8, 0.9, 0.95, 0.99, 1.0001)
SHORT = (76, 152, 300)
"""Lengths of the windows that are not full yet, each on every third seed."""
FAINT = 0.5
"""Signal-to-noise ratio at which a cycle is hard to tell."""
SLOW = 20.0
"""Periods (s) from which looking every ten seconds costs less than half of one."""
WATCHED_S = 1800
START_MS = 1_700_000_000_000
EVERY = 10
WARM_S, COST_S = 600, 240
NODE_SERIES = 48
"""Utilization, power and memory of 16 GPUs: what comes in one tick."""
EVENTS = ("locked", "old dropped", "new found", "end seen")
REST, BUSY = 200, 400
"""Seconds of idleness before and after a job, and of each of its two cycles."""


@dataclass(frozen=True, slots=True)
class CycleAnswer:
    """Holds what a detector said of a case; ``period`` None for no cycle, in samples."""

    case: Case
    period: float | None
    confidence: float

    @property
    def error(self) -> float:
        """Return the relative error of the period; infinite without one."""
        if self.period is None or self.case.period is None:
            return float("inf")
        return abs(self.period / self.case.period - 1)

    @property
    def right(self) -> bool:
        """Tell whether the period is the true one, or none where there is none."""
        return self.period is None if self.case.period is None else is_close(self.period, self.case.period)


def answers(cases: Sequence[Case]) -> tuple[list[CycleAnswer], float]:
    """Ask ours of each case; return the answers, and microseconds per case."""
    answered: list[CycleAnswer] = []
    spent = 0.0
    for first in range(0, len(cases), BATCH):
        batch = cases[first : first + BATCH]
        windows = [case.series() for case in batch]
        began = time.process_time()
        results = find_cycles(windows)
        spent += time.process_time() - began
        for case, result in zip(batch, results, strict=True):
            main = result.cycles[0] if result else None
            period, confidence = (main.period, main.confidence) if main else (None, 0.0)
            answered.append(CycleAnswer(case, period, confidence))
    return answered, spent / len(cases) * 1e6


def f1(positive: Sequence[CycleAnswer], negative: Sequence[CycleAnswer]) -> float:
    """Return the harmonic mean of precision and recall."""
    hits = sum(answer.right for answer in positive)
    alarms = sum(answer.period is not None and not answer.right for answer in (*positive, *negative))
    misses = len(positive) - hits
    return cycle_f1(hits, alarms, misses) or 0.0


@dataclass(frozen=True, slots=True)
class DetectorScores:
    """What one detector said of all cases, and what a series cost it."""

    name: str
    whole: list[CycleAnswer]
    fractional: list[CycleAnswer]
    quiet: list[CycleAnswer]
    ms: float

    def f1(self, positive: Sequence[CycleAnswer], seeds: range) -> float:
        """Over these and one of each control per seed."""
        return f1(positive, [one for one in self.quiet if one.case.seed in seeds])

    def alarms(self, kinds: Sequence[str]) -> float:
        """Share of these controls that were said to have a cycle."""
        return float(np.mean([one.period is not None for one in self.quiet if one.case.kind in kinds]))

    def row(self, seeds: range) -> list[Cell]:
        """Of the table."""
        errors = [one.error for one in (*self.whole, *self.fractional) if one.right]
        return [
            self.name, self.f1(self.whole, seeds), self.f1(self.fractional, seeds),
            100 * self.alarms(NAMED_CONTROLS), *(100 * self.alarms([kind]) for kind in NAMED_CONTROLS),
            100 * float(np.median(errors)) if errors else float("nan"), self.ms,
        ]  # fmt: skip


def asked(detector: Detector, cases: Sequence[Case]) -> tuple[list[CycleAnswer], float]:
    """What a peer says of each case, and microseconds per case."""
    said, spent = [], 0.0
    for case in cases:
        series = case.series()
        began = time.process_time()
        period = detector(series)
        spent += time.process_time() - began
        said.append(CycleAnswer(case, period, 0.0 if period is None else 1.0))
    return said, spent / len(cases) * 1e6


def scores_of(name: str, seeds: range, thin: int = 1) -> DetectorScores:
    """One detector on all cases, or only on each ``thin``-th."""
    parts = (
        list(cyclic_cases(seeds, fractional=False))[::thin],
        list(cyclic_cases(seeds, fractional=True))[::thin],
        list(controls(_more(seeds, thin), NAMED_CONTROLS)),
    )  # fmt: skip
    runs = [answers(part) if name == OURS else asked(DETECTORS[name], part) for part in parts]
    us = sum(run[1] * len(part) for run, part in zip(runs, parts, strict=True))
    (whole, _), (fractional, _), (quiet, _) = runs
    return DetectorScores(name, whole, fractional, quiet, us / sum(map(len, parts)) / 1000)


def _more(seeds: range, thin: int) -> range:
    """The seeds of the controls: those of the cycles, and more."""
    return range(seeds.start, seeds.start + max(CONTROLS_PER_SEED * len(seeds) // thin, 1))


def comparison(report: TableReport, seeds: range, thin: int = 1) -> None:
    """Make the table of all detectors."""
    found = {name: scores_of(name, seeds, thin) for name in (OURS, *DETECTORS)}
    count = len(_more(seeds, thin))
    title = f"cycles: {len(seeds)} seeds of {48 // thin}; false alarms in % of {count} of each control"
    report.table("cycles", title, COLUMNS, [one.row(seeds) for one in found.values()])


def ours_alone(report: TableReport, seeds: range, thin: int = 1) -> None:
    """Make the tables of ours alone, on ten times as many seeds: F1, reliability, and harder controls."""
    seeds = range(seeds.start, seeds.start + OURS_TIMES * len(seeds)) if thin == 1 else seeds
    ours = scores_of(OURS, seeds, thin)
    count = len(_more(seeds, thin))
    title = f"cycles, ours alone: {len(seeds)} seeds; false alarms in % of {count} of each control"
    report.table("cycles_ours", title, COLUMNS, [ours.row(seeds)])
    kinds = tuple(kind for kind in CONTROLS if kind not in NAMED_CONTROLS)
    harder, _ = answers(list(controls(_more(seeds, thin), kinds)))
    said = [*ours.whole, *ours.fractional, *ours.quiet, *harder]
    every = [*said, *answers(list(doubtful(seeds)))[0]]
    title = f"cycles, reliability over {len(every)} series, short and weak ones too"
    pairs = [(answer.confidence, answer.right) for answer in every if answer.period is not None]
    report.reliability("cycles", title, pairs, EDGES)
    report.table("cycles_harder", "cycles, false alarms of ours on controls that are harder still, %",
                 ["control", "series", "alarms %"],
                 [[kind, sum(one.case.kind == kind for one in harder),
                   100 * float(np.mean([one.period is not None for one in harder if one.case.kind == kind]))]
                  for kind in kinds])  # fmt: skip


def doubtful(seeds: range) -> Iterator[Case]:
    """Series of which it is hard to be sure: windows that are not full yet, and faint cycles."""
    for case in cyclic_cases(seeds, fractional=True):
        length = SHORT[case.seed % len(SHORT)]
        if case.period is not None and length >= 3 * case.period:
            yield replace(case, length=length)
        if case.snr == 1.0:
            yield replace(case, snr=FAINT)
    for case in controls(seeds):
        yield from (replace(case, length=length) for length in SHORT)


def _off(period: float | None, true: float) -> bool:
    return not is_close(period, true)


Changes = list[tuple[int, float | None]]


def published(columns: list[Floats]) -> list[Changes]:
    """What is published of each column, (second, period in s)."""
    bank, series = CycleBank(len(columns)), np.array(columns).T
    changes: list[Changes] = [[] for _ in columns]
    for second, row in enumerate(series):
        bank.update(START_MS + 1000 * second, row)
        if second % EVERY == EVERY - 1:
            for column, result in bank.changes(START_MS + 1000 * second):
                changes[column].append((second, result.period_s))
    return changes


def cost(report: TableReport, seeds: range, thin: int = 1) -> None:
    """What a stream pays for a node's series, some with a cycle and some without, once windows are full."""
    half = NODE_SERIES // 2 // thin
    cases = [*itertools.islice(cyclic_cases(seeds, fractional=True), half)]
    cases += itertools.islice(controls(range(seeds.start, seeds.start + NODE_SERIES)), half)
    series = np.array([replace(case, length=WARM_S + COST_S).series() for case in cases]).T
    bank, spent = CycleBank(len(cases)), 0.0
    for second, row in enumerate(series):
        began = time.process_time()
        bank.update(START_MS + 1000 * second, row)
        if second % EVERY == EVERY - 1:
            bank.changes(START_MS + 1000 * second)
        if second >= WARM_S:
            spent += time.process_time() - began
    us = spent / COST_S / len(cases) * 1e6
    rows: list[list[Cell]] = [["µs per series and second", us], ["cores for 8,000 series", us * 8000 / 1e6]]
    title = f"cycles, cost in a stream of {len(cases)} series, half of them cyclic, evaluated every {EVERY} s"
    report.table("cycles_cost", title, ["what", "figure"], rows)


def delays(report: TableReport, seeds: range) -> None:
    """A job starts, changes its cycle and ends, between idleness: after how many periods is it known?
    Of ten times as many seeds; and how often a series without a cycle is said to have one."""
    jobs = []
    more = range(seeds.start, seeds.start + OURS_TIMES * len(seeds))
    for seed, kind in itertools.product(more, ("sine", "square", "sawtooth", "bursts")):
        rng = np.random.default_rng([seed, *kind.encode(), 3])
        one, other = np.exp(rng.uniform(np.log(6), np.log(60), size=2))
        if _off(one, other):
            busy = [Case(kind, seed, period, 10.0, length=BUSY).series() for period in (one, other)]
            rest = [2 + 0.3 * rng.normal(size=REST) for _ in range(2)]
            jobs.append((one, other, np.concatenate((rest[0], *busy, rest[1]))))
    changes = published([series for *_, series in jobs])
    events: dict[str, list[tuple[float, float]]] = {event: [] for event in EVENTS}
    change, end = REST + BUSY, REST + 2 * BUSY
    for (one, other, _), said in zip(jobs, changes, strict=True):
        events["locked"].append((one, (_first(said, REST, one) - REST) / one))
        first_off = next((second for second, now in said if second >= change and _off(now, one)), np.inf)
        events["old dropped"].append((one, (first_off - change) / one))
        events["new found"].append((other, (_first(said, change, other) - change) / other))
        ended = next((second for second, period in said if second >= end and period is None), np.inf)
        events["end seen"].append((other, (ended - end) / other))
    rows: list[list[Cell]] = []
    for what, after in events.items():
        slow = [delay for period, delay in after if period >= SLOW] or [np.nan]
        rows.append([what, *_quantiles([delay for _, delay in after]), *_quantiles(slow)])
    title = (
        f"cycles, delay in periods, {len(jobs)} jobs whose cycle changes, evaluated every {EVERY} s; "
        f"and of periods from {SLOW:.0f} s"
    )
    report.table("cycles_delay", title, ["event", "median", "9 of 10", "slow: median", "9 of 10 slow"], rows)
    _watched(report, more)


def _quantiles(delays: Sequence[float]) -> list[float]:
    return [float(one) for one in np.quantile(delays, (0.5, 0.9), method="higher")]


def _watched(report: TableReport, seeds: range) -> None:
    """Controls that begin after idleness, as a stream looks at them: how often is a cycle found?"""
    rows: list[list[Cell]] = []
    for kind in CONTROLS:
        columns = []
        for seed in seeds:
            series = Case(kind, seed, length=WATCHED_S).series()
            rest = np.random.default_rng([seed, *kind.encode(), 4]).normal(size=REST // 2)
            columns.append(np.concatenate((series.min() + 0.002 * np.ptp(series) * rest, series)))
        locks = sum(period is not None for changes in published(columns) for _, period in changes)
        rows.append([kind, locks / len(seeds) / WATCHED_S * 3600])
    title = f"cycles, found per hour of a series that has none, {len(seeds)} of each watched for half an hour"
    report.table("cycles_watched", title, ["control", "an hour"], rows)


def _first(said: Changes, since: int, period: float) -> float:
    return next((second for second, now in said if second >= since and not _off(now, period)), np.inf)
