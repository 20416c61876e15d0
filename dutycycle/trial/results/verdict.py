"""Takes what was measured of each trial from the report of its trace, each figure with its standard error,
and judges which was best, and which cannot be told from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dutycycle.measures.change import change
from dutycycle.measures.figures import measures_of
from dutycycle.measures.steps import Measure, inverse, power_at_work, product, step_rates
from dutycycle.report.page import Report
from dutycycle.trial.plan import Variant

UNITS = ("sample", "step", "cycle")
"""What may be counted, the best first: trainings report samples and steps; a cycle of GPU utilization is
seen from outside."""
_IDLE_PCT = 1.0


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """Holds the figures of a trial. ``rates``: a second, by unit; ``power_w``: of all its GPUs while it
    worked; ``bottleneck``: None for unknown; ``idle_gpus``: that did nothing."""

    rates: Mapping[str, Measure]
    power_w: Measure | None
    bottleneck: str | None
    idle_gpus: int


@dataclass(frozen=True, slots=True)
class TrialOutcome:
    """Holds one trial. ``ended``: how, in words; ``figures``: None where nothing was measured."""

    variant: Variant
    ended: str
    gpu_minutes: float = 0.0
    figures: TrialFigures | None = None


@dataclass(frozen=True, slots=True)
class TrialRow:
    """Holds what is compared of a trial, in the unit of all; None for what is not known.

    ``rate``: units a second; ``gpu_s``, ``joules``: GPU-seconds and joules a unit, of all its GPUs.
    """

    outcome: TrialOutcome
    rate: Measure | None = None
    gpu_s: Measure | None = None
    joules: Measure | None = None

    def by(self, goal: str) -> Measure | None:
        """Return what counts for a goal, such that less is better."""
        if goal == "rate":
            return None if self.rate is None else inverse(self.rate)
        return self.gpu_s if goal == "gpu-seconds" else self.joules


@dataclass(frozen=True, slots=True)
class TrialVerdict:
    """Says which trial was best. ``unit``: of the rows, None where no trial has one. ``best``: None where no
    trial has what counts. ``ties``: that differ from it by no more than noise; ``unsure``: that are too short
    to tell."""

    goal: str
    unit: str | None
    rows: tuple[TrialRow, ...]
    best: TrialRow | None = None
    ties: tuple[TrialRow, ...] = ()
    unsure: tuple[TrialRow, ...] = ()


def figures_of(report: Report) -> TrialFigures:
    """Return the figures of a trial from its report."""
    measures = measures_of(report)
    rates = step_rates(report.facts.processes)
    cycle = measures.get("cycle_s")
    if cycle is not None and cycle.value:
        rates["cycle"] = inverse(cycle)
    bottleneck = report.facts.verdicts[0].insight["bottleneck"] if report.facts.verdicts else "unknown"
    idle = [gpu for gpu in report.facts.gpus if gpu.util_max is not None and gpu.util_max < _IDLE_PCT]
    return TrialFigures(
        rates={unit: rates[unit] for unit in UNITS if unit in rates},
        power_w=power_at_work(report, cycle),
        bottleneck=None if bottleneck == "unknown" else bottleneck,
        idle_gpus=len(idle),
    )


def unit_of(trials: Sequence[TrialOutcome]) -> str | None:
    """Return the first unit that all trials have that have any; else the one that most have."""
    having = [trial.figures.rates for trial in trials if trial.figures is not None and trial.figures.rates]
    counts = {unit: sum(unit in rates for rates in having) for unit in UNITS}
    best = max(UNITS, key=lambda unit: (counts[unit], -UNITS.index(unit)))
    return best if counts[best] else None


def verdict_of(trials: Sequence[TrialOutcome], goal: str) -> TrialVerdict:
    """Compare them by ``goal``. Among those that are equal but for noise, the one of fewest GPUs is best."""
    unit = unit_of(trials)
    rows = tuple(_row(trial, unit) for trial in trials)
    known = [(row, value) for row in rows if (value := row.by(goal)) is not None]
    if not known:
        return TrialVerdict(goal, unit, rows)
    _, least = min(known, key=lambda pair: pair[1].value)
    differs = {id(row): change(least, value).is_one for row, value in known}
    equal = [(row, value) for row, value in known if differs[id(row)] is False]
    best, _ = min(equal, key=lambda pair: (pair[0].outcome.variant.total, pair[1].value))
    ties = tuple(row for row, _ in equal if row is not best)
    unsure = tuple(row for row, _ in known if differs[id(row)] is None)
    return TrialVerdict(goal, unit, rows, best, ties, unsure)


def _row(outcome: TrialOutcome, unit: str | None) -> TrialRow:
    if outcome.figures is None or unit is None or (rate := outcome.figures.rates.get(unit)) is None:
        return TrialRow(outcome)
    seconds, power = inverse(rate), outcome.figures.power_w
    return TrialRow(
        outcome, rate,
        gpu_s=product(seconds, Measure(outcome.variant.total, 0.0)),
        joules=None if power is None else product(seconds, power),
    )  # fmt: skip
