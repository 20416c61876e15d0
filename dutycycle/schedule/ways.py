"""Lists the ways to schedule that are compared."""

from collections.abc import Callable

from dutycycle.schedule.orders import ByArrival, ByClass, ByCore
from dutycycle.schedule.scoring import ExtenderScores, default_scores
from dutycycle.schedule.simulation import Simulation
from dutycycle.schedule.workload import JobTrace
from sinks.scheduling.core.policy import Band, Policy

Way = Callable[[JobTrace, Policy, int], Simulation]
BANDS = {"high": Band(20_000_001, 30_000_000), "": Band(10_000_001, 20_000_000), "low": Band(0, 10_000_000)}
"""For the classes of traces."""


WAYS: dict[str, tuple[str, Way]] = {
    "fifo": (
        "strictly first come, first served",
        lambda jobs, _, seed: Simulation(jobs, ByArrival(), default_scores, strict=True, seed=seed),
    ),
    "default": (
        "kube-scheduler as it comes: by class, then arrival; LeastAllocated",
        lambda jobs, _, seed: Simulation(jobs, ByClass(), default_scores, strict=False, seed=seed),
    ),
    "priorities": (
        "our priorities alone",
        lambda jobs, policy, seed: Simulation(
            jobs, ByCore(policy, knows=False), default_scores, strict=False, seed=seed
        ),
    ),
    "scores": (
        "our scores of nodes alone",
        lambda jobs, _, seed: Simulation(jobs, ByClass(), ExtenderScores(), strict=False, seed=seed),
    ),
    "ours": (
        "our priorities and scores, from jobs that have ended by then",
        lambda jobs, policy, seed: Simulation(
            jobs, ByCore(policy, knows=False), ExtenderScores(), strict=False, seed=seed
        ),
    ),
    "oracle": (
        "ours, told the true durations",
        lambda jobs, policy, seed: Simulation(
            jobs, ByCore(policy, knows=True), ExtenderScores(), strict=False, seed=seed
        ),
    ),
}
"""What each is, and how it is made, by name."""
