"""Runs every way over every workload, and collects what came of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dutycycle.progress import Progress
from dutycycle.schedule.figures import ScheduleFigures, figures_of
from dutycycle.schedule.simulation import Outcomes
from dutycycle.schedule.ways import WAYS
from dutycycle.schedule.workload import JobTrace
from sinks.scheduling.core.policy import Policy

BASE = "default"
"""What the others are compared with."""


@dataclass(frozen=True, slots=True)
class Result:
    """Holds the result of one way and one seed. ``waits_s``: of each job, in the order of their arrival."""

    seed: int
    way: str
    figures: ScheduleFigures
    waits_s: NDArray[np.float64]


def compare(
    workload: Callable[[int], JobTrace], seeds: Sequence[int], ways: Sequence[str], policy: Policy,
    progress: Progress,
) -> list[Result]:  # fmt: skip
    """Return all results, by seed and then by way. ``workload`` gives the one of a seed."""
    results: list[Result] = []
    before = 0
    for number, seed in enumerate(seeds):
        jobs = workload(seed)
        progress.whole = len(jobs.jobs) * len(ways) * (len(seeds) - number) + before
        done: dict[str, Outcomes] = {}
        for way in ways:
            start = before

            def show(ended: int, start: int = start, note: str = f"seed {seed}, {way}") -> None:
                progress.show(start + ended, start + ended, note)

            done[way] = WAYS[way][1](jobs, policy, seed).run(show)
            before += len(jobs.jobs)
        arrived = np.array([job.arrival_s for job in jobs.jobs])
        for way, outcomes in done.items():
            figures = figures_of(jobs, outcomes, done.get("fifo"))
            results.append(Result(seed, way, figures, outcomes.began_s - arrived))
    return results


def ratios(results: Sequence[Result], figure: str) -> Mapping[str, list[float]]:
    """Return of each way a figure over that of the default, a value a seed; empty if the default was not
    run."""
    base = {result.seed: result.figures.by_name()[figure] for result in results if result.way == BASE}
    ratios_by_way: dict[str, list[float]] = {}
    for result in results:
        value, of_base = result.figures.by_name()[figure], base.get(result.seed)
        if value is not None and of_base:
            ratios_by_way.setdefault(result.way, []).append(value / of_base)
    return ratios_by_way
