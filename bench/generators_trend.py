"""Seeded series for measuring forecasts, each with what one who knows how it is made would say.

The cyclic ones are those that detectors are measured on, only longer. No forecast can be better than the
oracle's on average: what is left is noise, of which nothing is known in advance.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bench.generators import SHAPES, Floats, Rng, log_uniform

HORIZONS_S = (1, 10, 30, 300)
LENGTH = 1800
SNRS = (10.0, 3.0, 1.0)


@dataclass(frozen=True, slots=True)
class Known:
    """A series, shape (length,), and its oracle's forecasts of it, shape (horizons, length): row k holds
    at t what is said at t about t + HORIZONS_S[k]. ``what`` names the kind and the part of the mix."""

    kind: str
    what: str
    series: Floats
    oracle: Floats


def _of_clean(clean: Floats, scatter: Floats, kind: str, what: str) -> Known:
    """A series of which all is known but the noise; ``clean`` reaches past its end."""
    length = scatter.size
    oracle = np.array([clean[h : h + length] for h in HORIZONS_S])
    return Known(kind, what, clean[:length] + scatter, oracle)


def cyclic_series(kind: str, seed: int, snr: float, *, trend: bool) -> Known:
    """A shape of 4-120 samples' period, with noise and perhaps a slope."""
    rng = np.random.default_rng([seed, *kind.encode(), int(snr * 10), int(trend), 91])
    period = log_uniform(rng, 4, 120)
    clean = SHAPES[kind](rng, LENGTH + HORIZONS_S[-1], period)
    noise = rng.normal(size=LENGTH) * clean.std() / np.sqrt(snr)
    slope = rng.choice((-1, 1)) * rng.uniform(2, 4) * clean.std() / LENGTH if trend else 0.0
    clean = 50 + 20 * (clean + slope * np.arange(clean.size))
    return _of_clean(clean, 20 * noise, kind, f"SNR {snr:g}")


def _white(rng: Rng) -> Known:
    """Independent normal values."""
    return _of_clean(np.full(LENGTH + HORIZONS_S[-1], 50.0), 10 * rng.normal(size=LENGTH), "white", "")


def _random_walk(rng: Rng) -> Known:
    """The sum of independent normal steps: nothing is better than what is now."""
    series = 50 + rng.normal(size=LENGTH).cumsum()
    return Known("random_walk", "", series, np.array([series for _ in HORIZONS_S]))


def _ar1(rng: Rng) -> Known:
    """First-order autoregression, coefficient 0.5-0.99: the oracle knows it."""
    keep = rng.uniform(0.5, 0.99)
    steps = rng.normal(size=LENGTH)
    value, off = steps[0] / np.sqrt(1 - keep**2), np.empty(LENGTH)
    for place in range(LENGTH):
        value = off[place] = keep * value + steps[place]
    return Known("ar1", "", 50 + 5 * off, np.array([50 + 5 * keep**h * off for h in HORIZONS_S]))


def _telegraph(rng: Rng) -> Known:
    """Switches between idle and busy at random moments, on average every 3-60 samples."""
    state = 90.0 * ((rng.uniform(size=LENGTH) < 1 / rng.uniform(3, 60)).cumsum() % 2)
    return Known("telegraph", "", state + 2 * rng.normal(size=LENGTH), np.array([state for _ in HORIZONS_S]))


def _ramp(rng: Rng) -> Known:
    """Grows and flattens, as memory does while a job warms up."""
    clean = 80 * (1 - np.exp(-np.arange(LENGTH + HORIZONS_S[-1]) / rng.uniform(10, 900)))
    return _of_clean(clean, rng.uniform(0.2, 2) * rng.normal(size=LENGTH), "ramp", "")


OTHERS: dict[str, Callable[[Rng], Known]] = {
    "white": _white, "random_walk": _random_walk, "ar1": _ar1, "telegraph": _telegraph, "ramp": _ramp,
}  # fmt: skip


def mix(seeds: range) -> list[Known]:
    """Of each seed: every shape at one signal-to-noise ratio (they take turns), half of them with a slope;
    and every other kind."""
    found: list[Known] = []
    for seed in seeds:
        snr, trend = SNRS[seed % 3], seed // 3 % 2 == 1
        found += [cyclic_series(kind, seed, snr, trend=trend) for kind in SHAPES]
        found += [make(np.random.default_rng([seed, *kind.encode(), 92])) for kind, make in OTHERS.items()]
    return found
