"""Makes a failing run small: fewer faults, workers, keys and ticks, as long as it still fails."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.support.simulation.plan import Plan
from tests.support.simulation.run import Outcome, simulate

MOST_RUNS = 150


def shrunk(failed: Outcome, most: int = MOST_RUNS) -> Outcome:
    """The smallest failing run that was found from ``failed`` in at most so many runs."""
    smaller = _smaller(failed.plan)
    for _ in range(most):
        plan = next(smaller, None)
        if plan is None:
            break
        outcome = simulate(plan)
        if outcome.failure is not None:
            failed = outcome
            smaller = _smaller(plan)
    return failed


def _smaller(plan: Plan) -> Iterator[Plan]:
    """Plans that are one step smaller, the largest steps first."""
    for name in ("ticks", "keys", "workers", "partitions"):
        size: int = getattr(plan, name)
        for less in dict.fromkeys((size // 2, size - 1)):
            if 1 <= less < size:
                change: dict[str, Any] = {name: less}
                yield replace(plan, **change)
    for fault in plan.faults():
        yield replace(plan, without=plan.without | {fault})
