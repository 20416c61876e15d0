"""Measures what came of a simulation, in figures."""

from dataclasses import asdict, dataclass

import numpy as np

from dutycycle.schedule.simulation import Outcomes
from dutycycle.schedule.workload import JobTrace


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
