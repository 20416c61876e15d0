"""Runs of the simulation: one again, step by step (``--seed``), or many of fresh seeds (``--minutes``)."""

import argparse
import secrets
import sys
import time
from collections import Counter

from tests.support.simulation.plan import add_options, from_options, planned
from tests.support.simulation.run import Outcome, simulate
from tests.support.simulation.shrink import shrunk

_REAL_SHARE = 10
"""One run in so many is one of the real stages."""


def main() -> int:
    """What the command line asks for; 1 if a run failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.simulation", description=__doc__)
    add_options(parser)
    parser.add_argument("--shrink", action="store_true", help="of a run that fails, show a smaller one")
    parser.add_argument("--minutes", type=float, default=1.0, help="of many runs, how long; default 1")
    parser.add_argument("--base", type=int, help="the first of many seeds; default: a fresh one")
    args = parser.parse_args()
    if args.seed is None:
        base = secrets.randbelow(10**9) if args.base is None else args.base
        return int(_soak(base, 60 * args.minutes))
    outcome = simulate(from_options(args), keep_trace=True)
    if outcome.failure is not None and args.shrink:
        outcome = simulate(shrunk(outcome).plan, keep_trace=True)
    print("\n".join(outcome.lines))
    print(f"faults: {' '.join(outcome.plan.faults())}\nchecked: {dict(outcome.checked)}\n{report(outcome)}")
    return int(outcome.failure is not None)


def report(outcome: Outcome) -> str:
    """The verdict, and the line that replays the run."""
    return f"{outcome.failure or 'everything held'}\n  {outcome.plan.command()}"


def _soak(base: int, seconds: float) -> bool:
    """Runs of the seeds from ``base`` on, until the time is up; whether one failed."""
    print(f"base seed {base}", flush=True)
    ends, seed, checked, failures = time.monotonic() + seconds, base, Counter[str](), 0
    while time.monotonic() < ends:
        outcome = simulate(planned(seed, "real" if seed % _REAL_SHARE == 0 else "toy"))
        checked += outcome.checked
        seed += 1
        if outcome.failure is not None:
            failures += 1
            print(f"{report(outcome)}\n  smaller: {report(shrunk(outcome))}", flush=True)
    print(f"{seed - base} runs, {failures} failed; checked {dict(checked)}")
    return failures > 0


if __name__ == "__main__":
    sys.exit(main())
