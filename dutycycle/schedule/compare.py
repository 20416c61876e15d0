"""Runs every way over every workload; makes of what came of it a table for people, and rows for programs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dutycycle.progress import Progress
from dutycycle.schedule.figures import ScheduleFigures, figures_of
from dutycycle.schedule.simulation import Outcomes
from dutycycle.schedule.ways import WAYS
from dutycycle.schedule.workload import JobTrace
from dutycycle.words import rounded_duration
from sinks.scheduling.core.policy import Policy

BASE = "default"
"""What the others are compared with."""
HEADERS = (
    "way", "mean wait>", "p95>", "longest>", "mean completion>", "of default's>", "p95 wait of default's>",
    "makespan>", "split>", "fairness>", "starved>",
)  # fmt: skip


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


def rows_of(results: Sequence[Result]) -> Iterator[tuple[str, ...]]:
    """Yield a row a way, below ``HEADERS``: means over the seeds; of jobs that starved the sum."""
    completion, waits = ratios(results, "mean_completion_s"), ratios(results, "p95_wait_s")
    for way in dict.fromkeys(result.way for result in results):
        figures = [result.figures for result in results if result.way == way]
        starved = [run.starved for run in figures if run.starved is not None]
        yield (
            way,
            *(rounded_duration(_mean(figures, name)) for name in ("mean_wait_s", "p95_wait_s")),
            rounded_duration(max(run.max_wait_s for run in figures)),
            rounded_duration(_mean(figures, "mean_completion_s")),
            _times(completion.get(way)),
            _times(waits.get(way)),
            rounded_duration(_mean(figures, "makespan_s")),
            f"{_mean(figures, 'split_pct'):.1f} %",
            f"{_mean(figures, 'fairness'):.3f}",
            str(sum(starved)) if starved else "",
        )


def legend(ways: Sequence[str]) -> str:
    """Return a line a way."""
    width = max(len(way) for way in ways)
    return "\n".join(f"{way:{width}}  {WAYS[way][0]}" for way in ways)


def plain_rows(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Return a row a seed and way, with all figures by name."""
    return [{"seed": result.seed, "way": result.way, **result.figures.by_name()} for result in results]


def _mean(figures: Sequence[ScheduleFigures], name: str) -> float:
    return float(np.mean([getattr(run, name) for run in figures]))


def _times(values: Sequence[float] | None) -> str:
    return f"{np.mean(values):.2f}x" if values else ""
