"""Hundreds of seeded runs, the same ones every time. A failure prints the line that replays it."""

from collections import Counter
from collections.abc import Iterable

import pytest
from _pytest.mark import ParameterSet

from tests.support.simulation.plan import FAULTS, planned
from tests.support.simulation.run import simulate
from tests.support.simulation.shrink import shrunk
from tests.support.targets import slow_after

TOY_RUNS, TOY_BATCHES, TOY_QUICK = 600, 24, 1
REAL_RUNS, REAL_BATCHES, REAL_QUICK = 24, 3, 0
"""Runs, the parts that they are made in, and how many of these are quick.

Of the toy's there are four times as many as find each mutant (test_mutants); ``make soak`` tries others.
"""
FAILED = slow_after(0, [(73127, 500000040, 910229), (910061, 910146, 910304, 910343)])
"""Fresh seeds that had failed."""
CHECKS = {"state", "content", "committed", "slots", "states", "lives"}


def batches(runs: int, many: int, quick: int) -> list[ParameterSet]:
    """Seeds in equal parts, so that they can run beside one another."""
    size = runs // many
    return slow_after(quick, [range(first, first + size) for first in range(0, runs, size)])


def all_hold(kind: str, seeds: Iterable[int]) -> None:
    """Run them; every kind of check has to have been made in each part."""
    checked = Counter[str]()
    for seed in seeds:
        outcome = simulate(planned(seed, kind))
        if outcome.failure is not None:
            smaller = shrunk(outcome)
            pytest.fail(f"{outcome.failure}\n{outcome.plan.command()}\nsmaller: {smaller.plan.command()}")
        checked += outcome.checked
    assert set(+checked) >= CHECKS


@pytest.mark.parametrize("seeds", batches(TOY_RUNS, TOY_BATCHES, TOY_QUICK), ids=str)
def test_toy(seeds: range) -> None:
    all_hold("toy", seeds)


@pytest.mark.parametrize("seeds", batches(REAL_RUNS, REAL_BATCHES, REAL_QUICK) + FAILED, ids=str)
def test_real(seeds: Iterable[int]) -> None:
    all_hold("real", seeds)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["toy", "real"])
def test_a_seed_replays_exactly(kind: str) -> None:
    plan = planned(11, kind)
    first, second = simulate(plan, keep_trace=True), simulate(plan, keep_trace=True)
    assert first.lines == second.lines
    assert len(first.lines) > 20
    assert first.checked == second.checked


def test_the_seeds_have_every_fault_and_most_pairs_of_them() -> None:
    faults = [frozenset(planned(seed, "toy").faults()) for seed in range(200)]
    pairs = {(one, other) for mine in faults for one in mine for other in mine}
    assert pairs == {(one, other) for one in FAULTS for other in FAULTS}
