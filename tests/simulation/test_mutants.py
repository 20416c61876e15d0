"""The simulation can fail: each way to break the code is found, within so many runs."""

import re

import pytest

from tests.support.simulation.mutants import MUTANTS, Mutant, broken
from tests.support.simulation.plan import Plan, planned
from tests.support.simulation.run import simulate
from tests.support.simulation.shrink import shrunk

WITHIN = {"toy": 600, "real": 40}
FOUND_BY = {
    "states_before_outputs": 7, "failed_output_dropped": 136, "unanswered_output_counts": 112,
    "older_state_wins": 36, "rewrite_forgotten": 53, "others_not_noticed": 53, "pieces_torn": 88,
    "removed_too_early": 64, "counters_begin_anew": 5, "held_ticks_lost": 17, "held_behind_lost": 22,
}  # fmt: skip
"""The first seed that found it when it was last looked for: it is tried before the others."""
QUICK = {"toy": 2, "real": 0}
"""Of each kind so many mutants are quick to look for; the others take a second each, and more."""
CASES = [
    pytest.param(kind, mutant, id=mutant.__name__, marks=[pytest.mark.slow] if number >= QUICK[kind] else [])
    for kind, mutants in MUTANTS.items()
    for number, mutant in enumerate(mutants)
]


def seeds(kind: str, mutant: Mutant) -> list[int]:
    """Those that may find it, the likely one first."""
    likely = FOUND_BY.get(mutant.__name__, 0)
    return sorted(range(WITHIN[kind]), key=lambda seed: seed != likely)


@pytest.mark.parametrize(("kind", "mutant"), CASES)
def test_a_mutant_is_found(kind: str, mutant: Mutant) -> None:
    found = next(
        (seed for seed in seeds(kind, mutant) if broken(mutant, seed, kind).failure is not None), None
    )
    assert found is not None, f"{mutant.__doc__} Nobody noticed in {WITHIN[kind]} runs"
    assert simulate(planned(found, kind)).failure is None, "it fails without the mutant as well"


def size(plan: Plan) -> int:
    """What a reader of a failing run has to look at."""
    return plan.ticks + plan.keys + plan.workers + plan.partitions + len(plan.faults())


@pytest.mark.slow
def test_a_failure_names_a_run_that_fails_again_and_a_smaller_one(monkeypatch: pytest.MonkeyPatch) -> None:
    mutant = MUTANTS["toy"][0]
    mutant(monkeypatch)
    outcome = next(
        one for one in (simulate(planned(seed, "toy")) for seed in range(WITHIN["toy"])) if one.failure
    )
    smaller = shrunk(outcome, most=40)
    assert simulate(smaller.plan).failure == smaller.failure
    assert size(smaller.plan) < size(outcome.plan)
    assert re.fullmatch(
        r"\.venv/bin/python -m tests\.support\.simulation --kind toy --seed \d+ .*", smaller.plan.command()
    )
