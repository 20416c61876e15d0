"""What was measured of one trial, from the report of its trace; each figure with its standard error."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np

from dutycycle.compare.figures import WORK, Measure, measures_of
from dutycycle.compare.noise import blocks_of, error_of_mean
from dutycycle.report.page import Report
from dutycycle.traces.frames import Floats, aligned
from dutycycle.traces.processes import ProcessSeen

UNITS = ("sample", "step", "cycle")
"""What may be counted, the best first: trainings report samples and steps; a cycle of GPU utilization is
seen from outside."""
_IDLE_PCT = 1.0


@dataclass(frozen=True, slots=True)
class Figures:
    """``rates``: a second, by unit; ``power_w``: of all its GPUs while it worked; ``bottleneck``: None for
    unknown; ``idle_gpus``: that did nothing."""

    rates: Mapping[str, Measure]
    power_w: Measure | None
    bottleneck: str | None
    idle_gpus: int


def figures_of(report: Report) -> Figures:
    """Of a trial's report."""
    measures = measures_of(report)
    found = dict(_reported(report.facts.processes))
    cycle = measures.get("cycle_s")
    if cycle is not None and cycle.value:
        found["cycle"] = inverse(cycle)
    told = report.facts.verdicts[0].insight["bottleneck"] if report.facts.verdicts else "unknown"
    idle = [one for one in report.facts.gpus if one.util_max is not None and one.util_max < _IDLE_PCT]
    return Figures(
        rates={unit: found[unit] for unit in UNITS if unit in found},
        power_w=_power(report, cycle),
        bottleneck=None if told == "unknown" else told,
        idle_gpus=len(idle),
    )


def inverse(of: Measure) -> Measure:
    """1 by a figure above 0, with the same relative error."""
    return Measure(1 / of.value, None if of.error is None else of.error / of.value**2)


def product(one: Measure, other: Measure) -> Measure:
    """Of two figures above 0 whose errors have nothing to do with one another."""
    value = one.value * other.value
    if one.error is None or other.error is None:
        return Measure(value, None)
    return Measure(value, hypot(one.error * other.value, other.error * one.value))


def _reported(processes: Sequence[ProcessSeen]) -> list[tuple[str, Measure]]:
    """Steps of the process that did most; samples of all, where each says its batches."""
    loops = [(one, one.loop) for one in processes if one.loop is not None and one.loop.steps]
    if not loops:
        return []
    most, _ = max(loops, key=lambda pair: pair[1].steps)
    step = _median(_ticks(most, "step_s"))
    found = [("step", inverse(step))] if step is not None and step.value else []
    rates = [_median(_ticks(one, "samples_per_s")) for one, _ in loops]
    known = [one for one in rates if one is not None]
    if len(known) == len(loops):
        errors = [one.error for one in known if one.error is not None]
        error = hypot(*errors) if len(errors) == len(known) else None
        found.append(("sample", Measure(sum(one.value for one in known), error)))
    return found


def _ticks(one: ProcessSeen, column: str) -> Floats:
    return one.frame.between(0, 2**62)[column]


def _median(values: Floats) -> Measure | None:
    """Over the ticks: the first steps, in which a program warms up, do not count."""
    if not np.isfinite(values).any():
        return None
    return Measure(float(np.nanmedian(values)), error_of_mean(blocks_of(values, None)))


def _power(report: Report, cycle: Measure | None) -> Measure | None:
    """The mean of the sum over the GPUs while the job worked; None where that of a GPU was not measured."""
    view = report.view
    if not view.gpus:
        return None
    step_ms = max(*(one.ticks.step_ms for one in view.gpus), 1)
    values = aligned((one.ticks for one in view.gpus), "power_w", view.first_ms, view.last_ms, step_ms)
    times = view.first_ms + step_ms * np.arange(values.shape[1])
    works = np.zeros(len(times), bool)
    for one in report.phases:
        if one.name in WORK:
            works |= (times >= one.first_ms) & (times < one.last_ms)
    line = values.sum(axis=0)[works]
    if not np.isfinite(line).any():
        return None
    period = None if cycle is None else cycle.value * 1000 / step_ms
    return Measure(float(np.nanmean(line)), error_of_mean(blocks_of(line, period)))
