"""How well and how fast cycles are found. Tuned on seeds 0-99; the published figures are of seeds from 1000.

    python -m bench.bench_cycle [FIRST_SEED [SEEDS]]

A period within 5 % of the true one is a hit: jitter alone moves the mean period of five bursts by 2 %. A
wrong period is a false alarm and a miss at once.
"""

import itertools
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from bench.cycle_stream import CLOSE as CLOSE
from bench.cycle_stream import print_costs, print_jobs, print_patience
from bench.generators import CONTROLS, HARDER, NAMED_CONTROLS, SHAPES, SNRS, Case, controls, cyclic_cases
from streams.operators.cycles.detect.detector import best
from streams.operators.cycles.detect.spectrum import spectra
from streams.operators.cycles.detect.window import find_cycles

EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001)
BATCH = 24
"""Series looked at together: what one node evaluates at once."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the detector said of a case; ``period`` None for no cycle, in samples."""

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
        began = time.process_time()
        found = find_cycles(windows)
        spent += time.process_time() - began
        for case, one in zip(batch, found, strict=True):
            main = one.cycles[0] if one else None
            said.append(Answer(case, main.period if main else None, main.confidence if main else 0.0))
    return said, spent / len(cases) * 1e6


def f1(positive: Sequence[Answer], negative: Sequence[Answer]) -> float:
    """Harmonic mean of precision and recall."""
    hits = sum(answer.right for answer in positive)
    alarms = sum(answer.period is not None and not answer.right for answer in (*positive, *negative))
    misses = len(positive) - hits
    return 2 * hits / (2 * hits + alarms + misses)


def _recall(positive: Sequence[Answer], kinds: Iterable[str], title: str = "recall") -> None:
    print(f"\n{title:<12}" + "".join(f"  SNR {snr:<4g}" for snr in SNRS))
    for kind in kinds:
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


def chances(cases: Sequence[Case]) -> list[Answer]:
    """The likeliest period of each case that has a peak at all, however unlikely: what is told is cut off
    at 0.8, and says little about whether a confidence of 0.5 means one half."""
    found: list[Answer] = []
    for case in cases:
        judged = best(spectra(case.series()[np.newaxis]))
        pairs = zip(judged.period.tolist(), judged.confidence.tolist(), strict=True)
        found += [Answer(case, period, confidence) for period, confidence in pairs]
    return found


@dataclass(frozen=True, slots=True)
class Bin:
    """Of ``count`` answers with a confidence from ``low`` to ``high``, ``told`` on average, the share
    ``right`` was."""

    low: float
    high: float
    count: int
    told: float
    right: float


def reliability(said: Sequence[Answer]) -> tuple[list[Bin], float]:
    """The bins that hold any answer, and the Brier score: the mean squared error of the confidence."""
    told = np.array([a.confidence for a in said if a.period is not None])
    right = np.array([a.right for a in said if a.period is not None], float)
    bins = []
    for low, high in itertools.pairwise(EDGES):
        inside = (told >= low) & (told < high)
        if inside.any():
            figures = float(told[inside].mean()), float(right[inside].mean())
            bins.append(Bin(low, min(high, 1.0), int(inside.sum()), *figures))
    return bins, float(((told - right) ** 2).mean())


def _reliability(said: Sequence[Answer]) -> None:
    bins, brier = reliability(said)
    print(f"\nreliability of every peak's confidence, told or not; Brier score {brier:.4f}")
    for one in bins:
        print(f"{one.low:.2f}-{one.high:.2f}  mean {one.told:5.3f}  right {one.right:6.3f} of {one.count}")


def main(first: int = 1000, count: int = 100) -> None:
    """Print the tables."""
    seeds = range(first, first + count)
    print(f"seeds {first}-{first + count - 1}")
    quiet, us_quiet = answers(list(controls(range(first, first + 4 * count))))
    named = [a for a in quiet if a.case.kind in NAMED_CONTROLS]
    said = list(quiet)
    for fractional in (False, True):
        found, us_found = answers(list(cyclic_cases(seeds, fractional=fractional)))
        said += found
        errors = [a.error for a in found if a.right]
        few = [a for a in named if a.case.seed < first + count]
        print(f"\n{'fractional' if fractional else 'integer'} periods: F1 {f1(found, few):.4f}, median error "
              f"{100 * np.median(errors):.3f} %, {us_found:.0f} µs per evaluation")  # fmt: skip
        _recall(found, SHAPES)
    harder, _ = answers(list(cyclic_cases(range(first, first + count // 2), fractional=True, kinds=HARDER)))
    _recall(harder, HARDER, "harder ones")
    wrong = np.mean([a.period is not None and not a.right for a in harder])
    print(f"wrong periods among these {wrong:.4f}")
    fired = np.mean([a.period is not None for a in named])
    print(f"\nfalse alarms over the five controls {fired:.4f}, {us_quiet:.0f} µs per evaluation")
    _alarms(quiet)
    _reliability(chances([a.case for a in said]))
    print("\njobs")
    for shapes in (("sine", "square", "sawtooth"), ("bursts",)):
        print_jobs(range(first, first + max(count // 4, 1)), shapes)
    print_patience(range(first, first + max(count // 4, 1)), 1.0)
    print_costs(first)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
