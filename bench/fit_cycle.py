"""Fits the weights of ``detect/confidence.py`` and ``detect/early.py`` to the tuning seeds.

python -m bench.fit_cycle
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.generators import CONTROLS, SHAPES, SNRS, Case, Floats, controls, cyclic_cases
from dutycycle.experiments.scores.cycles import is_close
from streams.operators.cycles.detect.active import active, beginning
from streams.operators.cycles.detect.confidence import EVIDENCE
from streams.operators.cycles.detect.detector import likeliest_of
from streams.operators.cycles.detect.early import LEAST, LONGEST, MOST, repeats
from streams.operators.cycles.detect.spectrum import FLAT

SEEDS = range(160)
LENGTHS = (600, 600, 300, 152, 76)
RIDGE = 0.1
"""Keeps a weight small that hardly matters."""


def cases() -> Iterator[Case]:
    """Windows of all lengths; those with a cycle hold at least three periods."""
    for fractional in (False, True):
        for case in cyclic_cases(SEEDS, fractional=fractional):
            length = LENGTHS[case.seed % len(LENGTHS)]
            if case.period is not None and length >= 3 * case.period:
                yield replace(case, length=length)
    for length in sorted(set(LENGTHS)):
        for case in controls(range(2 * len(SEEDS))):
            yield replace(case, length=length)


def examples() -> tuple[Floats, Floats]:
    """What is known of each case that gets as far as a fold, and whether its period is right."""
    known: list[Floats] = []
    right: list[bool] = []
    for case in cases():
        if (found := likeliest_of(case.series())) is not None:
            known.append(found[1])
            right.append(case.period is not None and is_close(found[0].period, case.period))
    return np.array(known), np.array(right, np.float64)


def beginnings() -> Iterator[tuple[Floats, float | None]]:
    """Windows as a stream looks at them every ten seconds: something has begun, half of the time after
    idleness; and its period, if it has one."""
    for seed in SEEDS:
        for kind in (*SHAPES, *CONTROLS):
            for turn, snr in enumerate(SNRS):
                rng = np.random.default_rng([seed, *kind.encode(), turn, 99])
                period = float(np.exp(rng.uniform(np.log(5), np.log(90)))) if kind in SHAPES else None
                if period is None and turn == 0:
                    continue
                case = Case(kind, seed, period, snr, bool(rng.uniform() < 0.3), length=600 if turn else 400)
                series, before = case.series(), 0
                if rng.uniform() < 0.5:
                    before = 200
                    idle = series.min() - np.ptp(series) * (0.1 + 0.003 * rng.normal(size=before))
                    series = np.concatenate((idle, series))
                most = LONGEST if period is None else min(MOST * period, LONGEST)
                for end in range(before + int(rng.integers(10, 20)), before + int(most), 10):
                    yield series[:end], period


def begun() -> tuple[Floats, Floats]:
    """What is known of each window that repeats in some way, and whether its period is right."""
    known: list[Floats] = []
    right: list[bool] = []
    for window, period in beginnings():
        begin, end = active(window)
        part = window[beginning(window, begin) :]
        if end < window.size or not LEAST <= part.size <= LONGEST:
            continue
        evidence = np.empty(EVIDENCE)
        one, _ = repeats(part, FLAT, 0.0, evidence)
        if one:
            known.append(evidence)
            right.append(period is not None and is_close(one, period))
    return np.array(known), np.array(right, np.float64)


def fit(known: Floats, right: Floats) -> Floats:
    """Logistic regression by Newton's method, the constant not held small."""
    weights = np.zeros(known.shape[1])
    ridge = RIDGE * np.eye(known.shape[1])
    ridge[0, 0] = 0.0
    for _ in range(50):
        chance = 1 / (1 + np.exp(-known @ weights))
        slope = known.T @ (right - chance) - ridge @ weights
        bend = (known * (chance * (1 - chance))[:, np.newaxis]).T @ known + ridge
        weights = weights + np.linalg.solve(bend, slope)
    return np.asarray(weights)


if __name__ == "__main__":
    known, right = examples()
    print(f"{len(right)} examples, {right.mean():.3f} right, controls: {', '.join(CONTROLS)}")
    print("WEIGHTS =", tuple(fit(known, right).round(3).tolist()))
    known, right = begun()
    print(f"{len(right)} beginnings, {right.mean():.3f} right")
    print("WEIGHTS =", tuple(fit(known, right).round(3).tolist()), "of detect.early")
