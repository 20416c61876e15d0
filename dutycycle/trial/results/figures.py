"""Takes what was measured of one trial from the report of its trace; each figure with its standard
error."""

from collections.abc import Mapping
from dataclasses import dataclass

from dutycycle.measures.figures import measures_of
from dutycycle.measures.steps import Measure, inverse, power_at_work, step_rates
from dutycycle.report.page import Report

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
