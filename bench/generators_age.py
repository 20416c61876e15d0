"""Seeded curves of memory in use from its first second on, in percent of the capacity, with noise or without.

What they do is what no past can foretell: a load comes to rest, a step comes once. So each lasts an hour.
"""

from collections.abc import Callable

import numpy as np

from bench.generators import Floats, Rng

LENGTH = 3600
SECONDS = np.arange(float(LENGTH))


def ramp(rng: Rng) -> Floats:
    """Up or down at one pace for the whole hour, and not full."""
    curve = rng.uniform(10, 40) + rng.uniform(10, 55) * SECONDS / LENGTH
    return np.asarray(curve if rng.uniform() < 0.5 else curve[::-1])


def load(rng: Rng) -> Floats:
    """Read in at one pace for 10 s to 9 minutes, then there."""
    took, at = rng.uniform(10, 540), rng.uniform(0, 60)
    return np.asarray(rng.uniform(1, 10) + rng.uniform(30, 85) * np.clip((SECONDS - at) / took, 0, 1))


def step(rng: Rng) -> Floats:
    """One step up or down."""
    before, after = rng.uniform(5, 95, size=2)
    return np.asarray(np.where(rng.uniform(0.1, 0.9) * LENGTH > SECONDS, before, after))


def leak(rng: Rng) -> Floats:
    """Full after 10 minutes to an hour, and then it stays so."""
    start = rng.uniform(20, 60)
    return np.asarray(np.minimum(start + (100 - start) * SECONDS / rng.uniform(600, 3600), 100.0))


def flat(rng: Rng) -> Floats:
    """The same throughout."""
    return np.full(LENGTH, rng.uniform(5, 95))


CURVES: dict[str, Callable[[Rng], Floats]] = {
    "ramp": ramp, "load": load, "step": step, "leak": leak, "flat": flat,
}  # fmt: skip


def curve(kind: str, seed: int, *, noisy: bool) -> Floats:
    """One value a second."""
    rng = np.random.default_rng([seed, *kind.encode()])
    return np.clip(CURVES[kind](rng) + noisy * rng.uniform(0.1, 1) * rng.normal(size=LENGTH), 0, 100)
