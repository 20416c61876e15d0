"""Runs every way over every workload; makes of what came of it figures, a table for people, and rows for
programs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dutycycle.progress import Progress
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
class ScheduleFigures:
    """Holds the figures of one way to schedule. Waiting and completion are from a job's arrival to its begin
    and end.

    ``split_pct``: of all GPU time from the first arrival to the last end, what was idle though a job waited
    that asked for no more GPUs than were idle. ``fairness``: Jain's index over namespaces, 1/n to 1, of the
    share of their jobs' completion times in which they ran. ``starved``: jobs that waited longer than anyone
    does in strict order of arrival, where nobody is overtaken; None if that was not simulated.
    """

    mean_wait_s: float
    p95_wait_s: float
    max_wait_s: float
    mean_completion_s: float
    p95_completion_s: float
    makespan_s: float
    split_pct: float
    fairness: float
    starved: int | None

    def by_name(self) -> dict[str, float | None]:
        """Return the figures as a row of a table."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Result:
    """Holds the result of one way and one seed. ``waits_s``: of each job, in the order of their arrival."""

    seed: int
    way: str
    figures: ScheduleFigures
    waits_s: NDArray[np.float64]


def figures_of(workload: JobTrace, outcomes: Outcomes, fifo: Outcomes | None) -> ScheduleFigures:
    """Return the figures; ``fifo`` are the outcomes in strict order of arrival."""
    arrived = np.array([job.arrival_s for job in workload.jobs])
    waits, completions = outcomes.began_s - arrived, outcomes.ended_s - arrived
    starved = None
    if fifo is not None:
        starved = int(np.count_nonzero(waits > (fifo.began_s - arrived).max()))
    makespan_s = float(outcomes.ended_s.max() - arrived.min())
    all_gpu_s = sum(machine.gpus for machine in workload.machines) * makespan_s
    # Jain's index over the namespaces (Jain, Chiu and Hawe, A Quantitative Measure of Fairness, 1984)
    shares: dict[str, list[float]] = {}
    for job, completion in zip(workload.jobs, completions.tolist(), strict=True):
        shares.setdefault(job.template.namespace, []).append(
            job.duration_s / completion if completion else 1.0
        )
    means = np.array([np.mean(share) for share in shares.values()])
    fairness = float(means.sum() ** 2 / (len(means) * (means**2).sum()))
    return ScheduleFigures(
        mean_wait_s=float(waits.mean()),
        p95_wait_s=float(np.quantile(waits, 0.95)),
        max_wait_s=float(waits.max()),
        mean_completion_s=float(completions.mean()),
        p95_completion_s=float(np.quantile(completions, 0.95)),
        makespan_s=makespan_s,
        split_pct=100 * outcomes.split_gpu_s / all_gpu_s if all_gpu_s else 0.0,
        fairness=fairness,
        starved=starved,
    )


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
