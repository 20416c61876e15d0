"""How well and how fast rhythms are found. Tuned on seeds 0-99; the published figures are of seeds from 1000.

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

from bench.generators import CONTROLS, HARDER, NAMED_CONTROLS, SHAPES, SNRS, Case, Floats, controls, rhythms
from streams.operators.cycle import CycleBank
from streams.operators.cycle_window import look

CLOSE = 0.05
START_MS = 1_700_000_000_000
EVERY = 10
"""Seconds between looks of a stream."""
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
        began = time.process_time()
        seen = look(windows)
        spent += time.process_time() - began
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


def _reliability(said: Sequence[Answer]) -> None:
    print("\nreliability: of the answers with this confidence, so many were right")
    edges = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0001)
    for low, high in itertools.pairwise(edges):
        part = [a.right for a in said if a.period is not None and low <= a.confidence < high]
        print(f"{low:.2f}-{min(high, 1):.2f}  {np.mean(part) if part else float('nan'):7.3f} of {len(part)}")


def _stream(columns: list[Floats]) -> tuple[list[list[tuple[int, float | None]]], float]:
    """Of each column the news of a bank, (second, period or None); microseconds per series and second."""
    bank, series = CycleBank(None, len(columns)), np.array(columns).T
    news: list[list[tuple[int, float | None]]] = [[] for _ in columns]
    began = time.process_time()
    for second, row in enumerate(series):
        bank.update(START_MS + 1000 * second, row)
        if second % EVERY == EVERY - 1:
            for column, result in bank.changes(START_MS + 1000 * second):
                news[column].append((second, result.period_s))
    return news, (time.process_time() - began) / series.size * 1e6


def _jobs(seeds: range, shapes: Sequence[str]) -> None:
    """A job starts, changes its rhythm and ends, between idleness: when is each of these known?"""
    columns, periods = [], []
    for seed in seeds:
        for kind in shapes:
            rng = np.random.default_rng([seed, *kind.encode(), 1])
            one, other = np.exp(rng.uniform(np.log(6), np.log(60), size=2))
            busy = [Case(kind, seed, p, 10.0, length=400).series() for p in (one, other)]
            rest = [2 + 0.3 * rng.normal(size=200) for _ in range(2)]
            columns.append(np.concatenate((rest[0], *busy, rest[1])))
            periods.append((one, other))
    told, us = _stream(columns)
    locks, drops, finds, ends = [], [], [], []
    for (one, other), news in zip(periods, told, strict=True):
        if abs(one / other - 1) < 2 * CLOSE:
            continue
        locks.append((_when(news, one, 200) - 200) / one)
        drops.append((next((s for s, p in news if s >= 600 and _off(p, one)), np.inf) - 600) / one)
        finds.append((_when(news, other, 600) - 600) / other)
        ends.append((next((s for s, p in news if s >= 1000 and p is None), np.inf) - 1000) / other)
    print(
        f"{'/'.join(shapes)}: {len(locks)} jobs, {us:.1f} µs per series and second, looked at every {EVERY} s"
    )
    for what, cycles in (("locked", locks), ("old dropped", drops), ("new found", finds), ("end seen", ends)):
        middle, most = np.quantile(cycles, (0.5, 0.9), method="higher")
        print(f"  {what:<12} after {middle:5.2f} periods (median), {most:5.2f} (9 of 10)")


def _when(news: list[tuple[int, float | None]], period: float, since: int) -> float:
    return next((s for s, p in news if s >= since and p is not None and not _off(p, period)), np.inf)


def _off(period: float | None, true: float) -> bool:
    return period is None or abs(period / true - 1) > CLOSE


def _patience(seeds: range, hours: float) -> None:
    """How often a series without a rhythm is said to have one, when it is watched for long."""
    print(f"\nfalse locks per hour of watching, {len(seeds)} series of {hours:g} h")
    for kind in CONTROLS:
        columns = [Case(kind, seed, length=int(3600 * hours)).series() for seed in seeds]
        told, us = _stream(columns)
        locks = sum(period is not None for news in told for _, period in news)
        print(f"{kind:<12}  {locks / len(seeds) / hours:7.4f}   {us:5.1f} µs per series and second")


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
        _recall(found, SHAPES)
    harder, _ = answers(list(rhythms(range(first, first + count // 2), fractional=True, kinds=HARDER)))
    _recall(harder, HARDER, "harder ones")
    wrong = np.mean([a.period is not None and not a.right for a in harder])
    print(f"wrong periods among these {wrong:.4f}")
    fired = np.mean([a.period is not None for a in named])
    print(f"\nfalse alarms over the five controls {fired:.4f}, {us_quiet:.0f} µs per evaluation")
    _alarms(quiet)
    _reliability(said)
    print("\njobs")
    for shapes in (("sine", "square", "sawtooth"), ("bursts",)):
        _jobs(range(first, first + max(count // 4, 1)), shapes)
    _patience(range(first, first + max(count // 4, 1)), 1.0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
