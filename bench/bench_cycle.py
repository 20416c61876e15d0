"""How well and how fast cycles are found, by shape and noise. Tuned on seeds 0-99.

    python -m bench.bench_cycle [FIRST_SEED [SEEDS]]

A period within 5 % of the true one is a hit: jitter alone moves the mean period of five bursts by 2 %. A
wrong period is a false alarm and a miss at once. Delays in a stream, and how often a series without a cycle
is locked there, are measured by ``bench_insight``.
"""

import itertools
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import zstandard

from bench.generators import CONTROLS, HARDER, NAMED_CONTROLS, SHAPES, SNRS, Case, controls, cyclic_cases
from dutycycle.experiments.scores.cycles import f1 as cycle_f1
from dutycycle.experiments.scores.cycles import is_close
from streams.operators.cycles.detect.detector import likeliest_of
from streams.operators.cycles.detect.window import find_cycles
from streams.operators.cycles.scales import CycleScales
from streams.state.codec import to_bytes

START_MS = 1_700_000_000_000
EVERY = 10
"""Seconds between evaluations."""
EDGES = (0.0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001)
BATCH = 24
"""Series evaluated together: about what one node has."""


@dataclass(frozen=True, slots=True)
class CycleAnswer:
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
        return self.period is None if self.case.period is None else is_close(self.period, self.case.period)


def answers(cases: Sequence[Case]) -> tuple[list[CycleAnswer], float]:
    """The answers, and microseconds per case."""
    said: list[CycleAnswer] = []
    spent = 0.0
    for first in range(0, len(cases), BATCH):
        batch = cases[first : first + BATCH]
        windows = [case.series() for case in batch]
        began = time.process_time()
        found = find_cycles(windows)
        spent += time.process_time() - began
        for case, one in zip(batch, found, strict=True):
            main = one.cycles[0] if one else None
            said.append(CycleAnswer(case, main.period if main else None, main.confidence if main else 0.0))
    return said, spent / len(cases) * 1e6


def f1(positive: Sequence[CycleAnswer], negative: Sequence[CycleAnswer]) -> float:
    """Harmonic mean of precision and recall."""
    hits = sum(answer.right for answer in positive)
    alarms = sum(answer.period is not None and not answer.right for answer in (*positive, *negative))
    misses = len(positive) - hits
    return cycle_f1(hits, alarms, misses) or 0.0


def _recall(positive: Sequence[CycleAnswer], kinds: Iterable[str], title: str = "recall") -> None:
    print(f"\n{title:<12}" + "".join(f"  SNR {snr:<4g}" for snr in SNRS))
    for kind in kinds:
        print(f"{kind:<12}", end="")
        for snr in SNRS:
            right = [a.right for a in positive if a.case.kind == kind and a.case.snr == snr]
            print(f"  {np.mean(right):7.3f} ", end="")
        print()


def _alarms(negative: Sequence[CycleAnswer]) -> None:
    print("\nfalse alarms")
    for kind in CONTROLS:
        fired = [a.period is not None for a in negative if a.case.kind == kind]
        mark = "" if kind in NAMED_CONTROLS else "  (not in the comparison)"
        print(f"{kind:<12}  {np.mean(fired):7.4f} of {len(fired)}{mark}")


def chances(cases: Sequence[Case]) -> list[CycleAnswer]:
    """The likeliest period of each case that has a peak at all, however unlikely: what is published is
    cut off at 0.8, and says little about whether a confidence of 0.5 means one half."""
    peaks = ((case, likeliest_of(case.series())) for case in cases)
    return [CycleAnswer(case, peak[0].period, peak[0].confidence) for case, peak in peaks if peak]


@dataclass(frozen=True, slots=True)
class Bin:
    """Of ``count`` answers with a confidence from ``low`` to ``high``, ``said`` on average, the share
    ``right`` was."""

    low: float
    high: float
    count: int
    said: float
    right: float


def reliability(said: Sequence[CycleAnswer]) -> tuple[list[Bin], float]:
    """The bins that hold any answer, and the Brier score: the mean squared error of the confidence."""
    stated = np.array([a.confidence for a in said if a.period is not None])
    right = np.array([a.right for a in said if a.period is not None], float)
    bins = []
    for low, high in itertools.pairwise(EDGES):
        inside = (stated >= low) & (stated < high)
        if inside.any():
            figures = float(stated[inside].mean()), float(right[inside].mean())
            bins.append(Bin(low, min(high, 1.0), int(inside.sum()), *figures))
    return bins, float(((stated - right) ** 2).mean())


def _reliability(said: Sequence[CycleAnswer]) -> None:
    bins, brier = reliability(said)
    print(f"\nreliability of every peak's confidence, published or not; Brier score {brier:.4f}")
    for one in bins:
        print(f"{one.low:.2f}-{one.high:.2f}  mean {one.said:5.3f}  right {one.right:6.3f} of {one.count}")


@dataclass(frozen=True, slots=True)
class Costs:
    """``tick_us`` of a node's tick, ``evaluation_us`` of one series, ``gpu_us`` of a GPU's three series in
    ten seconds; bytes of state per series as it is written, before and after compression."""

    tick_us: float
    evaluation_us: float
    gpu_us: float
    state_bytes: float
    packed_bytes: float


NODE = (
    ("constant",) * 8
    + ("white", "ar1", "telegraph", "step") * 2
    + ("sine", "square", "sawtooth", "bursts") * 2
)


def costs(seed: int, seconds: int = 2100, warm_s: int = 900) -> Costs:
    """What a node of eight GPUs costs on all time scales once it has run for ``warm_s``: a third of its 24
    series are idle, a third busy without a cycle, a third have one."""
    columns = [
        Case(
            kind, seed * 100 + place, None if kind in CONTROLS else 10.0 + 2 * place, length=seconds
        ).series()
        for place, kind in enumerate(NODE)
    ]
    scales, ticks, evaluations = CycleScales(len(columns)), 0.0, 0.0
    for second, row in enumerate(np.maximum(np.array(columns).T, 0.0)):
        began = time.process_time()
        scales.update(START_MS + 1000 * second, row, 1000)
        middle = time.process_time()
        if second % EVERY == EVERY - 1:
            scales.changes(START_MS + 1000 * second)
        if second >= warm_s:
            ticks, evaluations = ticks + middle - began, evaluations + time.process_time() - middle
    plain = to_bytes(scales.snapshot())
    packed = zstandard.ZstdCompressor(level=1).compress(plain)
    tick_us = ticks / (seconds - warm_s) * 1e6
    evaluation_us = evaluations / ((seconds - warm_s) / EVERY) / len(columns) * 1e6
    gpu_us = 3 * evaluation_us + EVERY * tick_us / 8
    return Costs(tick_us, evaluation_us, gpu_us, len(plain) / len(columns), len(packed) / len(columns))


def _print_costs(seed: int) -> None:
    """Print what a node costs."""
    found = costs(seed)
    cores = found.gpu_us * 8000 / EVERY / 1e6
    print(f"\na node of 8 GPUs, 24 series: {found.tick_us:.0f} µs a tick, {found.evaluation_us:.0f} a series")
    print(f"{found.gpu_us:.0f} µs a GPU every {EVERY} s, {cores:.2f} core for 8,000")
    print(f"state {found.state_bytes:.0f} bytes a series, {found.packed_bytes:.0f} packed")


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
    half = range(first, first + max(count // 2, 1))
    harder, _ = answers(list(cyclic_cases(half, fractional=True, kinds=HARDER)))
    _recall(harder, HARDER, "harder ones")
    wrong = np.mean([a.period is not None and not a.right for a in harder])
    print(f"wrong periods among these {wrong:.4f}")
    fired = np.mean([a.period is not None for a in named])
    print(f"\nfalse alarms over the five controls {fired:.4f}, {us_quiet:.0f} µs per evaluation")
    _alarms(quiet)
    _reliability(chances([a.case for a in said]))
    _print_costs(first)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
