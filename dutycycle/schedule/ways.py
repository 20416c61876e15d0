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


def _fifo(workload: JobTrace, _: Policy, seed: int) -> Simulation:
    return Simulation(workload, ByArrival(), default_scores, strict=True, seed=seed)


def _default(workload: JobTrace, _: Policy, seed: int) -> Simulation:
    return Simulation(workload, ByClass(), default_scores, strict=False, seed=seed)


def _ours(workload: JobTrace, policy: Policy, seed: int) -> Simulation:
    order = ByCore(policy, knows=False)
    return Simulation(workload, order, ExtenderScores(), strict=False, seed=seed)


def _order_alone(workload: JobTrace, policy: Policy, seed: int) -> Simulation:
    order = ByCore(policy, knows=False)
    return Simulation(workload, order, default_scores, strict=False, seed=seed)


def _scores_alone(workload: JobTrace, _: Policy, seed: int) -> Simulation:
    return Simulation(workload, ByClass(), ExtenderScores(), strict=False, seed=seed)


def _oracle(workload: JobTrace, policy: Policy, seed: int) -> Simulation:
    order = ByCore(policy, knows=True)
    return Simulation(workload, order, ExtenderScores(), strict=False, seed=seed)


WAYS: dict[str, tuple[str, Way]] = {
    "fifo": ("strictly first come, first served", _fifo),
    "default": ("kube-scheduler as it comes: by class, then arrival; LeastAllocated", _default),
    "priorities": ("our priorities alone", _order_alone),
    "scores": ("our scores of nodes alone", _scores_alone),
    "ours": ("our priorities and scores, from jobs that have ended by then", _ours),
    "oracle": ("ours, told the true durations", _oracle),
}
"""What each is, and how it is made, by name."""
