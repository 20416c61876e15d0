"""Measures what a run did in each step that its training reports: rates and costs, each with its standard
error."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import hypot

import numpy as np

from dutycycle.measures.noise import blocks_of, error_of_mean, error_of_ratio
from dutycycle.report.page import Report
from dutycycle.traces.frames import aligned, at_once
from dutycycle.traces.processes import TracedProcess, most_steps

WORK = ("training", "inference", "interactive", "busy")
"""Names of the phases in which a job works."""


@dataclass(frozen=True, slots=True)
class Measure:
    """Holds a figure of one run. ``error``: its standard error; None where the run is too short to tell."""

    value: float
    error: float | None


def relative_error(measure: Measure | None) -> float | None:
    """Return the standard error by the figure; None where it is not known, or the figure is not above 0."""
    if measure is None or measure.error is None or measure.value <= 0:
        return None
    return measure.error / measure.value


def inverse(of: Measure) -> Measure:
    """Return 1 by a figure above 0, with the same relative error."""
    return Measure(1 / of.value, None if of.error is None else of.error / of.value**2)


def product(measure: Measure, other: Measure) -> Measure:
    """Return the product of two figures above 0 whose errors have nothing to do with one another."""
    value = measure.value * other.value
    if measure.error is None or other.error is None:
        return Measure(value, None)
    return Measure(value, hypot(measure.error * other.value, other.error * measure.value))


def step_measures(report: Report, cycle: Measure | None) -> Iterator[tuple[str, Measure]]:
    """Yield measures by ``Figure.id``; nothing where no training reports its steps, and no cost of a step
    where others have GPUs, too. ``cycle``: of GPU utilization."""
    most, rates = most_steps(report.facts.processes), step_rates(report.facts.processes)
    if most is None or "step" not in rates:
        return
    step = inverse(rates["step"])
    yield "steps", Measure(most[1].steps, 1.0)
    yield "steps_per_min", product(rates["step"], Measure(60.0, 0.0))
    if "sample" in rates:
        yield "samples_per_s", rates["sample"]
    if not report.view.is_of_one:
        return
    if (gpus := at_once((*gpu.ticks.life, 1.0) for gpu in report.view.gpus)) is not None:
        yield "gpu_s_per_step", product(step, Measure(gpus, 0.0))
    if (power := power_at_work(report, cycle)) is not None and power.value:
        yield "energy_j_per_step", product(step, power)


def step_rates(processes: Sequence[TracedProcess]) -> dict[str, Measure]:
    """Return rates a second. ``step``: of the process that did most; ``sample``: a second, of all that ran at
    once, where each says its batches. Counts by the time they took: of uneven steps the median says nothing
    of their rate."""
    most = most_steps(processes)
    if most is None:
        return {}
    measures = {}
    if (step := _rate(most[0], "steps")) is not None:
        measures["step"] = step
    loops = [process for process in processes if process.loop is not None and process.loop.steps]
    known = [(process, rate) for process in loops if (rate := _rate(process, "samples")) is not None]
    rate_of_all = at_once((*process.life, rate.value) for process, rate in known)
    if rate_of_all is not None and len(known) == len(loops):
        errors = [rate.error for _, rate in known if rate.error is not None]
        part = rate_of_all / sum(rate.value for _, rate in known)
        error = part * hypot(*errors) if len(errors) == len(known) else None
        measures["sample"] = Measure(rate_of_all, error)
    return measures


def _rate(process: TracedProcess, column: str) -> Measure | None:
    """Return a rate a second, above 0; None where ticks lack it."""
    ticks = process.steady_ticks()
    amounts, seconds = ticks[column], ticks["seconds"]
    if not seconds.sum() or not np.isfinite(amounts).all() or not amounts.sum():
        return None
    return Measure(float(amounts.sum() / seconds.sum()), error_of_ratio(amounts, seconds))


def power_at_work(report: Report, cycle: Measure | None) -> Measure | None:
    """Return the mean of the power's sum over the GPUs while the job worked; None where that of a GPU was not
    measured."""
    view = report.view
    if not view.gpus:
        return None
    step_ms = max(*(gpu.ticks.step_ms for gpu in view.gpus), 1)
    values = aligned((gpu.ticks for gpu in view.gpus), "power_w", view.first_ms, view.last_ms, step_ms)
    times = view.first_ms + step_ms * np.arange(values.shape[1])
    works = np.zeros(len(times), bool)
    for phase in report.phases:
        if phase.name in WORK:
            works |= (times >= phase.first_ms) & (times < phase.last_ms)
    line = values.sum(axis=0)[works]
    if not np.isfinite(line).any():
        return None
    period = None if cycle is None else cycle.value * 1000 / step_ms
    return Measure(float(np.nanmean(line)), error_of_mean(blocks_of(line, period)))
