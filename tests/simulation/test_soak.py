"""Fresh seeds for some minutes: ``make soak``."""

import os
import secrets
import time
from collections import Counter

import pytest

from tests.support.simulation.plan import planned
from tests.support.simulation.run import simulate
from tests.support.simulation.shrink import shrunk

MINUTES = float(os.environ.get("SIMULATION_MINUTES", "1"))
REAL_SHARE = 10
"""One run in so many is one of the real stages."""


@pytest.mark.soak
@pytest.mark.timeout(60 * MINUTES + 300)
def test_fresh_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    base, ends, checked, runs = secrets.randbelow(10**9), time.monotonic() + 60 * MINUTES, Counter[str](), 0
    with capsys.disabled():
        print(f"\nbase seed {base}", flush=True)
    while time.monotonic() < ends:
        seed = base + runs
        outcome = simulate(planned(seed, "real" if seed % REAL_SHARE == 0 else "toy"))
        if outcome.failure is not None:
            smaller = shrunk(outcome)
            pytest.fail(f"{outcome.failure}\n{outcome.plan.command()}\nsmaller: {smaller.plan.command()}")
        checked += outcome.checked
        runs += 1
    with capsys.disabled():
        print(f"{runs} runs, all held; checked {dict(checked)}", flush=True)
