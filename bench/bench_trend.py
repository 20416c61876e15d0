"""How good forecasts are, how honest their intervals, and how often memory is said to run out.

    python -m bench.bench_trend [FIRST_SEED [SEEDS]]

The error is the mean absolute error over that of persistence (what is now stays), as the mean over series:
below 1 is better. Nothing was tuned on seeds from 1000.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from bench.generators import CONTROLS, MEMORY, SHAPES, Case, Floats, leak
from streams.operators.trend import TrendBank
from streams.operators.trend_config import TrendConfig

LENGTH = 1800
LEARN = 600
"""Ticks before forecasts are judged."""
EVERY = 10
START_MS = 1_700_000_000_000
SKIPPED = {"constant", "pulse", "step"}
"""Controls of which persistence is never or nearly never wrong."""


def judged(series: Floats) -> tuple[Floats, Floats, Floats, float]:
    """Of ``series`` (columns of ticks): errors over persistence's, shares in the interval and below the
    95 % point, each of shape (horizons, columns); and microseconds per tick."""
    horizons = [int(h) for h in TrendConfig().horizons_s]
    bank = TrendBank(None, series.shape[1])
    error, naive, inside, below = np.zeros((4, len(horizons), series.shape[1]))
    spent, count = 0.0, 0
    for tick, values in enumerate(series):
        began = time.process_time()
        bank.update(START_MS + 1000 * tick, values)
        spent += time.process_time() - began
        if tick < LEARN or tick % EVERY or tick + horizons[-1] >= len(series):
            continue
        count += 1
        said = bank.forecast()
        truth = series[[tick + h for h in horizons]]
        error += np.abs(truth - said.value)
        naive += np.abs(truth - values)
        inside += (said.p05 <= truth) & (truth <= said.p95)
        below += truth <= said.p95
    return error / np.maximum(naive, 1e-9), inside / count, below / count, spent / len(series) * 1e6


def forecasts(seeds: range) -> None:
    """Print errors and coverage by kind of series."""
    print(f"{'':<12}{'error over persistence':^27}{'in 5-95 %':^24}{'below 95 %':^24}")
    kinds = [(kind, "shape") for kind in SHAPES] + [(k, "control") for k in CONTROLS if k not in SKIPPED]
    parts = []
    for kind, what in kinds:
        columns = [_series(kind, seed, what == "shape") for seed in seeds]
        error, inside, below, us = judged(np.array(columns).T)
        parts.append((error.mean(axis=1), inside.mean(axis=1), below.mean(axis=1)))
        _row(kind, *parts[-1])
    _row("all", *(np.mean([part[k] for part in parts], axis=0) for k in range(3)))
    print(f"{us:.1f} µs per tick of {len(seeds)} series")


def _series(kind: str, seed: int, rhythmic: bool) -> Floats:
    rng = np.random.default_rng([seed, *kind.encode()])
    period = float(np.exp(rng.uniform(np.log(4), np.log(120)))) if rhythmic else None
    return Case(kind, seed, period, float(rng.choice((10, 3))), length=LENGTH).series()


def _row(kind: str, *figures: Floats) -> None:
    print(f"{kind:<12}" + "   ".join("".join(f"{value:8.3f}" for value in part) for part in figures))


def exhaustion(seeds: range) -> None:
    """Print how often memory was said to run out, and when, over half an hour each."""
    print("\nsaid to run out, share of series (capacity 100 %)")
    kinds: dict[str, Callable[[np.random.Generator, int], Floats]] = {"leak": leak, **MEMORY}
    for kind, make in kinds.items():
        columns = [make(np.random.default_rng([seed, *kind.encode()]), LENGTH) for seed in seeds]
        series = np.array(columns).T * 1e9
        bank, capacity = TrendBank(None, len(columns)), np.full(len(columns), 100e9)
        first = np.full(len(columns), np.nan)
        left = np.full((LENGTH, len(columns)), np.nan)
        for tick, values in enumerate(series):
            bank.update(START_MS + 1000 * tick, values)
            if tick % EVERY == 0:
                left[tick] = bank.forecast(capacity=capacity).exhausts_in_s
                first[np.isnan(first) & ~np.isnan(left[tick])] = tick
        fired = ~np.isnan(first)
        after = f", first after {np.median(first[fired]):.0f} s" if fired.any() else ""
        print(f"{kind:<12}{fired.mean():8.3f} of {len(columns)}{after}")


def main(first: int = 1000, count: int = 40) -> None:
    """Print the tables."""
    print(f"seeds {first}-{first + count - 1}, horizons {TrendConfig().horizons_s} s")
    forecasts(range(first, first + count))
    exhaustion(range(first, first + 5 * count))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
