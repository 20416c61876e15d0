"""Seeded series with and without a cycle, for measuring detectors and forecasts.

Every series is a function of its ``Case`` alone. Shapes are averaged over each sample interval, as a
utilization counter does, so fractional periods look as they would on a real device. The signal-to-noise
ratio is one of variances.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Rng = np.random.Generator

LENGTH = 600
SNRS = (10.0, 3.0, 1.0)
FINE = 16
"""Points per sample that a shape is averaged over."""


@dataclass(frozen=True, slots=True)
class Case:
    """One series: ``kind`` names its shape or control; a control has no period."""

    kind: str
    seed: int
    period: float | None = None
    snr: float = 10.0
    trend: bool = False
    length: int = LENGTH

    def series(self) -> Floats:
        """The samples, shape (length,)."""
        rng = np.random.default_rng([self.seed, *self.kind.encode(), int(self.snr * 10), int(self.trend)])
        if self.period is None:
            return CONTROLS[self.kind](rng, self.length)
        clean = {**SHAPES, **HARDER}[self.kind](rng, self.length, self.period)
        noise = rng.normal(size=self.length) * clean.std() / np.sqrt(self.snr)
        slope = rng.choice((-1, 1)) * rng.uniform(2, 4) * clean.std() if self.trend else 0.0
        return np.asarray(50 + 20 * (clean + noise + slope * np.linspace(0, 1, self.length)))


def log_uniform(rng: Rng, low: float, high: float) -> float:
    """Draw a value whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _phase(rng: Rng, length: int, period: float) -> Floats:
    """Phase in cycles of every fine point, shape (length, FINE)."""
    moments = (np.arange(length * FINE) + 0.5) / FINE
    return np.asarray(moments / period + rng.uniform()).reshape(length, FINE)


def sine(rng: Rng, length: int, period: float) -> Floats:
    """A sine of random phase."""
    return np.asarray(np.sin(2 * np.pi * _phase(rng, length, period)).mean(axis=1))


def square(rng: Rng, length: int, period: float) -> Floats:
    """On for 20-80 % of the period."""
    duty = rng.uniform(0.2, 0.8)
    return np.asarray((_phase(rng, length, period) % 1 < duty).mean(axis=1))


def sawtooth(rng: Rng, length: int, period: float) -> Floats:
    """Rises and falls back at once, or the other way round."""
    sign = rng.choice((-1, 1))
    return np.asarray(sign * (_phase(rng, length, period) % 1).mean(axis=1))


def bursts(rng: Rng, length: int, period: float) -> Floats:
    """Bursts of 10-40 % of the period, each early or late by a normal 5 % of it."""
    count = int(length / period) + 4
    width = period * rng.uniform(0.1, 0.4)
    starts = (np.arange(count) - 2 + rng.uniform() + rng.normal(size=count) * 0.05) * period
    return _boxes(starts, width, length)


def _boxes(starts: Floats, width: float, length: int) -> Floats:
    moments = (np.arange(length * FINE) + 0.5) / FINE
    steps = np.zeros(length * FINE + 1)
    for edges, sign in ((starts, 1), (starts + width, -1)):
        np.add.at(steps, np.searchsorted(moments, edges), sign)
    return np.asarray((np.cumsum(steps[:-1]) > 0).astype(float).reshape(length, FINE).mean(axis=1))


def dips(rng: Rng, length: int, period: float) -> Floats:
    """Busy, with a dip of two samples in every period: a training loop that logs or saves."""
    return np.asarray(-((_phase(rng, length, period) % 1) * period < 2).mean(axis=1))


def renewal(rng: Rng, length: int, period: float) -> Floats:
    """Bursts each of which begins a period after the one before, give or take 2 %: the phase wanders off."""
    count = int(1.5 * length / period) + 8
    starts = (1 + 0.02 * rng.normal(size=count)).cumsum() * period - rng.uniform(1, 3) * period
    return _boxes(starts, period * rng.uniform(0.1, 0.5), length)


def uneven(rng: Rng, length: int, period: float) -> Floats:
    """A square whose height differs by 30 % from period to period."""
    phase = _phase(rng, length, period)
    height = 1 + 0.3 * rng.normal(size=int(length / period) + 3)
    return np.asarray(((phase % 1 < 0.4) * height[phase.astype(np.int64)]).mean(axis=1))


def drifting(rng: Rng, length: int, period: float) -> Floats:
    """A square on a random walk."""
    return square(rng, length, period) + 0.1 * rng.normal(size=length).cumsum()


def white(rng: Rng, length: int) -> Floats:
    """Independent normal values."""
    return 50 + 10 * rng.normal(size=length)


def random_walk(rng: Rng, length: int) -> Floats:
    """The sum of independent normal steps."""
    return np.asarray(50 + rng.normal(size=length).cumsum())


def ar1(rng: Rng, length: int) -> Floats:
    """First-order autoregression, coefficient 0.5-0.99, in its stationary state."""
    keep = rng.uniform(0.5, 0.99)
    steps = rng.normal(size=length)
    value, out = steps[0] / np.sqrt(1 - keep**2), np.empty(length)
    for place in range(length):
        value = out[place] = keep * value + steps[place]
    return np.asarray(50 + 5 * out)


def step(rng: Rng, length: int) -> Floats:
    """One step, somewhere in the middle 80 %, under noise that it exceeds."""
    at = int(length * rng.uniform(0.1, 0.9))
    return np.asarray(20 + 60 * (np.arange(length) >= at) + rng.uniform(0, 6) * rng.normal(size=length))


def constant(rng: Rng, length: int) -> Floats:
    """The same value throughout; in half of the cases now and then one unit of the last place more."""
    value = np.full(length, float(rng.integers(0, 101)))
    if rng.uniform() < 0.5:
        value += rng.uniform(size=length) < rng.uniform(0, 0.2)
    return value


def pulse(rng: Rng, length: int) -> Floats:
    """A single burst of up to a sixth of the length, then quiet again."""
    width = int(rng.integers(1, length // 6))
    at = int(rng.integers(0, length - width))
    place = np.arange(length)
    return 5 + 80.0 * ((place >= at) & (place < at + width)) + rng.normal(size=length)


def blips(rng: Rng, length: int) -> Floats:
    """Two to four equal bursts or dips, not equally far apart: checkpoints, stalls, evaluations."""
    width = int(rng.integers(2, max(3, length // 12)))
    while True:
        starts = np.sort(rng.uniform(0, length - width, size=int(rng.integers(2, 5))))
        gaps = np.diff(starts)
        if starts.size == 2 or gaps.max() > 1.25 * gaps.min():
            break
    bursts = 90 * _boxes(starts, float(width), length)
    clean = bursts if rng.uniform() < 0.5 else 95 - bursts
    return np.asarray(clean + rng.uniform(0, 6) * rng.normal(size=length))


def telegraph(rng: Rng, length: int) -> Floats:
    """Switches between idle and busy at random moments, on average every 3-60 samples."""
    switches = rng.uniform(size=length) < 1 / rng.uniform(3, 60)
    return np.asarray(90.0 * (switches.cumsum() % 2) + 2 * rng.normal(size=length))


def ramp(rng: Rng, length: int) -> Floats:
    """Grows and flattens, as memory does while a job warms up."""
    grown = 1 - np.exp(-np.arange(length) / rng.uniform(10, 300))
    return np.asarray(80 * grown + rng.uniform(0, 2) * rng.normal(size=length))


def leak(rng: Rng, length: int) -> Floats:
    """Memory (percent of capacity) that grows until it is full, in 0.6-2 times the length."""
    start, full_after = rng.uniform(20, 60), rng.uniform(0.6, 2) * length
    grown = start + (100 - start) * np.arange(length) / full_after
    step = rng.uniform(0, 0.5)
    if step > 0.25:
        grown = np.floor(grown / step) * step
    return np.asarray(np.minimum(grown + rng.uniform(0, 0.3) * rng.normal(size=length), 100))


def warm_up(rng: Rng, length: int) -> Floats:
    """Memory that grows to a plateau and stays: a framework's pool, a model that is loaded."""
    at, rise = int(rng.uniform(0, 0.5) * length), rng.uniform(10, 60)
    since = np.maximum(np.arange(length) - at, 0)
    straight = np.minimum(since / (rng.uniform(0.02, 0.3) * length), 1.0)
    bent = 1 - np.exp(-since / (rng.uniform(0.02, 0.3) * length))
    grown = straight if rng.uniform() < 0.5 else bent
    return np.asarray(10 + rise * grown + rng.uniform(0, 0.3) * rng.normal(size=length))


def cache(rng: Rng, length: int) -> Floats:
    """Memory that a cache fills ever more slowly."""
    grown = 1 - np.exp(-np.arange(length) / (rng.uniform(0.2, 1.0) * length))
    return np.asarray(rng.uniform(5, 30) + rng.uniform(20, 60) * grown + 0.1 * rng.normal(size=length))


def collected(rng: Rng, length: int) -> Floats:
    """Memory that grows until it is collected, again and again."""
    period = rng.uniform(20, 240)
    phase = np.arange(length) / period + rng.uniform()
    return np.asarray(rng.uniform(10, 40) + rng.uniform(5, 40) * (phase % 1) + 0.2 * rng.normal(size=length))


def wandering(rng: Rng, length: int) -> Floats:
    """Memory that goes up and down as requests come and go."""
    around = rng.uniform(20, 70)
    steps = rng.normal(size=length) * rng.uniform(0.02, 0.3)
    return np.asarray(np.clip(around + steps.cumsum(), 1, 99))


def allocated(rng: Rng, length: int) -> Floats:
    """Memory that jumps now and then, and otherwise stays."""
    jumps = (rng.uniform(size=length) < 0.005) * rng.normal(size=length) * 10
    return np.asarray(np.clip(rng.uniform(10, 70) + jumps.cumsum(), 0, 99))


SHAPES: dict[str, Callable[[Rng, int, float], Floats]] = {
    "sine": sine, "square": square, "sawtooth": sawtooth, "bursts": bursts,
}  # fmt: skip
HARDER: dict[str, Callable[[Rng, int, float], Floats]] = {
    "dips": dips, "renewal": renewal, "uneven": uneven, "drifting": drifting,
}  # fmt: skip
"""Shapes that are measured, but to which no weight was fitted."""
CONTROLS: dict[str, Callable[[Rng, int], Floats]] = {
    "white": white, "random_walk": random_walk, "ar1": ar1, "step": step, "constant": constant,
    "pulse": pulse, "blips": blips, "telegraph": telegraph, "ramp": ramp,
}  # fmt: skip
MEMORY: dict[str, Callable[[Rng, int], Floats]] = {
    "warm_up": warm_up, "cache": cache, "collected": collected, "wandering": wandering,
    "allocated": allocated,
}  # fmt: skip
"""Memory in use that is not running out, in percent of the capacity."""
NAMED_CONTROLS = ("white", "random_walk", "ar1", "step", "constant")
"""The controls of the published comparison; the others are harder ones of our own."""


def cyclic_cases(seeds: range, *, fractional: bool, kinds: Iterable[str] = tuple(SHAPES)) -> Iterator[Case]:
    """One series per seed, shape, ratio and trend; the period is log-uniform over 4-120 samples."""
    for seed in seeds:
        for kind in kinds:
            for snr in SNRS:
                for trend in (False, True):
                    key = [seed, *kind.encode(), int(snr), int(trend), 77]
                    period = log_uniform(np.random.default_rng(key), 4, 120)
                    yield Case(kind, seed, period if fractional else float(round(period)), snr, trend)


def controls(seeds: range, kinds: tuple[str, ...] = tuple(CONTROLS)) -> Iterator[Case]:
    """One series per seed and control."""
    for seed in seeds:
        for kind in kinds:
            yield Case(kind, seed)
