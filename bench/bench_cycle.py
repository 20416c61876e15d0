"""How well and how fast rhythms are found. Tuned on seeds 0-99; the published figures are of seeds from 1000.

    python -m bench.bench_cycle [FIRST_SEED [SEEDS]]

A period within 5 % of the true one is a hit: jitter alone moves the mean period of five bursts by 2 %. A
wrong period is a false alarm and a miss at once.
"""

import itertools
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.generators import CONTROLS, NAMED_CONTROLS, SHAPES, SNRS, Case, controls, rhythms
from streams.operators.cycle_window import look

CLOSE = 0.05
BATCH = 24
"""Series looked at together: what one node evaluates at once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the detector said of a case; ``period`` None for no rhythm, in samples."""

    case: Case
    period: float | None
    confidence: float

    @property
    def error(self) -> float:
        """Relative error of the period; infinite without one."""
        if self.period is None or self.case.period is None:
            return float("inf")
        return abs(self.period / self.case.period - 1)

    @property
    def right(self) -> bool:
        """Whether there is nothing to blame."""
        return self.period is None if self.case.period is None else self.error <= CLOSE


def answers(cases: Sequence[Case]) -> tuple[list[Answer], float]:
    """The answers, and microseconds per case."""
    said: list[Answer] = []
    spent = 0.0
    for first in range(0, len(cases), BATCH):
        batch = cases[first : first + BATCH]
        windows = [case.series() for case in batch]
        began = time.perf_counter()
        seen = look(windows)
        spent += time.perf_counter() - began
        for case, one in zip(batch, seen, strict=True):
            main = one.rhythms[0] if one else None
            said.append(Answer(case, main.period if main else None, main.confidence if main else 0.0))
    return said, spent / len(cases) * 1e6


def f1(positive: Sequence[Answer], negative: Sequence[Answer]) -> float:
    """Harmonic mean of precision and recall."""
    hits = sum(answer.right for answer in positive)
    alarms = sum(answer.period is not None and not answer.right for answer in (*positive, *negative))
    misses = len(positive) - hits
    return 2 * hits / (2 * hits + alarms + misses)


def _recall(positive: Sequence[Answer]) -> None:
    print(f"\n{'recall':<12}" + "".join(f"  SNR {snr:<4g}" for snr in SNRS))
    for kind in SHAPES:
        print(f"{kind:<12}", end="")
        for snr in SNRS:
            right = [a.right for a in positive if a.case.kind == kind and a.case.snr == snr]
            print(f"  {np.mean(right):7.3f} ", end="")
        print()


def _alarms(negative: Sequence[Answer]) -> None:
    print("\nfalse alarms")
    for kind in CONTROLS:
        fired = [a.period is not None for a in negative if a.case.kind == kind]
        mark = "" if kind in NAMED_CONTROLS else "  (not in the comparison)"
        print(f"{kind:<12}  {np.mean(fired):7.4f} of {len(fired)}{mark}")


def _reliability(said: Sequence[Answer]) -> None:
    print("\nreliability: of the answers with this confidence, so many were right")
    edges = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001)
    for low, high in itertools.pairwise(edges):
        part = [a.right for a in said if a.period is not None and low <= a.confidence < high]
        print(f"{low:.2f}-{min(high, 1):.2f}  {np.mean(part) if part else float('nan'):7.3f} of {len(part)}")


def main(first: int = 1000, count: int = 100) -> None:
    """Print the tables."""
    seeds = range(first, first + count)
    print(f"seeds {first}-{first + count - 1}")
    quiet, us_quiet = answers(list(controls(range(first, first + 4 * count))))
    named = [a for a in quiet if a.case.kind in NAMED_CONTROLS]
    said = list(quiet)
    for fractional in (False, True):
        found, us_found = answers(list(rhythms(seeds, fractional=fractional)))
        said += found
        errors = [a.error for a in found if a.right]
        few = [a for a in named if a.case.seed < first + count]
        print(f"\n{'fractional' if fractional else 'integer'} periods: F1 {f1(found, few):.4f}, median error "
              f"{100 * np.median(errors):.3f} %, {us_found:.0f} µs per evaluation")  # fmt: skip
        _recall(found)
    fired = np.mean([a.period is not None for a in named])
    print(f"\nfalse alarms over the five controls {fired:.4f}, {us_quiet:.0f} µs per evaluation")
    _alarms(quiet)
    _reliability(said)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
