"""What looking for a cycle costs: µs of CPU a series, by how many share the call and how long the window is.

    python -m bench.bench_look [CHECKOUT …]

Other checkouts of this repository are measured in turns with this one, in processes of their own, so that a
busy machine is as busy for each. A third of the series have a cycle, a third are noise, a third wander.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.generators import Case
from streams.operators.cycles.detect.window import find_cycles

LENGTHS = (120, 240, 600)
COUNTS = (1, 8, 24, 100, 400)
KINDS = ("square", "white", "random_walk")
ROUNDS = 3
ENOUGH_S = 0.2
"""CPU time of a measurement."""

Costs = list[list[float]]


def costs() -> Costs:
    """The least of several measurements, a row for each length and a column for each number of series."""
    return [[_cost(length, count) for count in COUNTS] for length in LENGTHS]


def _cost(length: int, count: int) -> float:
    cases = [
        Case(kind, seed, 7.3 + seed % 20 if kind == "square" else None, length=length)
        for seed in range(-(-max(COUNTS) // len(KINDS)))
        for kind in KINDS
    ]
    windows = [case.series() for case in cases[: max(COUNTS)]]
    batches = [windows[first : first + count] for first in range(0, len(windows) - count + 1, count)]
    find_cycles(batches[0])
    done, began, spent = 0, time.process_time(), 0.0
    while spent < ENOUGH_S:
        find_cycles(batches[done % len(batches)])
        done, spent = done + 1, time.process_time() - began
    return spent / done / count * 1e6


def _measured(checkout: Path) -> Costs:
    """The costs in another process, with the code of a ``checkout``."""
    command = [sys.executable, str(Path(__file__).resolve()), "--json"]
    environment = {"PYTHONPATH": str(checkout.resolve()), "OPENBLAS_NUM_THREADS": "1"}
    found = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    rows: Costs = json.loads(found.stdout)
    return rows


def main(checkouts: Sequence[Path]) -> None:
    """Print a table for each checkout."""
    best: dict[Path, Costs] = {}
    for _ in range(ROUNDS):
        for checkout in checkouts:
            rows = _measured(checkout)
            best[checkout] = np.minimum(best.get(checkout, rows), rows).tolist()
    for checkout, rows in best.items():
        print(f"\n{checkout}\n{'samples':>8}" + "".join(f"{count:>10}" for count in COUNTS))
        for length, row in zip(LENGTHS, rows, strict=True):
            print(f"{length:>8}" + "".join(f"{cost:>10.1f}" for cost in row))


if __name__ == "__main__":
    if sys.argv[1:] == ["--json"]:
        print(json.dumps(costs()))
    else:
        main([*map(Path, sys.argv[1:]), Path(__file__).parents[1]])
