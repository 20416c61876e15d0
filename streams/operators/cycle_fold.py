"""Laying a series' periods on top of one another: does each look like the others?

Epoch folding (D. A. Leahy et al. 1983), cross-validated: the periods are dealt into blocks, and each
block is held against the mean shape of all others. A step, a pulse or a wander fits itself, but not
those.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.operators.bank_state import Floats

BLOCKS = 6
PHASES = 16
TINY = 1e-12
ALMOST = 0.15
"""Share of a period that may be missing in the oldest one."""


@dataclass(frozen=True, slots=True)
class Fold:
    """How well whole periods repeat.

    ``explained`` is the share of the variance within periods that the shape of the other blocks predicts
    (at most 1, below 0 if worse than a constant). ``median`` and ``least`` are of the blocks'
    correlations with the shape of the others.
    """

    periods: int
    explained: float
    median: float
    least: float


def without_drift(series: Floats, period: float) -> Floats:
    """``series`` less its mean over the surrounding period, which takes out what is slower."""
    width = min(max(round(period), 2), series.size)
    sums = np.concatenate(([0.0], np.cumsum(series)))
    low = np.clip(np.arange(series.size) - width // 2, 0, series.size - width)
    return np.asarray(series - (sums[low + width] - sums[low]) / width)


def phases_of(period: float) -> int:
    """Into how many phases a period of so many samples is divided."""
    return int(min(PHASES, max(3, period)))


def fold(series: Floats, period: float, phases: int) -> Fold:
    """Fold ``series`` at ``period`` samples, of which it has to hold at least two, into so many phases."""
    quick = without_drift(series, period)
    age = np.arange(series.size, dtype=np.float64)[::-1] / period
    periods = int(series.size / period + ALMOST)
    blocks = min(BLOCKS, periods)
    whole = age < periods
    age, quick = age[whole], quick[whole]
    block = np.floor(age).astype(np.int64) * blocks // periods
    code = block * phases + ((1 - age % 1) * phases).astype(np.int64) % phases
    total = _sums(code, quick, blocks * phases).reshape(blocks, phases)
    count = np.bincount(code, minlength=blocks * phases).reshape(blocks, phases).astype(np.float64)
    return _compared(total, count, float((quick**2).sum()), periods)


def _sums(code: npt.NDArray[np.int64], values: Floats, size: int) -> Floats:
    """The sum of the values of each code below ``size``."""
    return np.asarray(np.bincount(code, values, size), np.float64)


def _compared(total: Floats, count: Floats, squares: float, periods: int) -> Fold:
    rest = count.sum(axis=0) - count
    shape = (total.sum(axis=0) - total) / np.maximum(rest, 1.0)
    both = (total * shape).sum(axis=1)
    shapes = (count * shape**2).sum(axis=1)
    own = (total**2 / np.maximum(count, 1.0)).sum(axis=1)
    agreement = both / np.sqrt(shapes * own + TINY)
    explained = float((2 * both - shapes).sum() / (squares + TINY))
    return Fold(periods, explained, float(np.median(agreement)), float(agreement.min()))


def without_shape(series: Floats, period: float) -> Floats:
    """``series`` less its mean shape over ``period``."""
    phases = int(min(4 * PHASES, max(3, period)))
    age = np.arange(series.size, dtype=np.float64)[::-1] / period
    code = ((1 - age % 1) * phases).astype(np.int64) % phases
    quick = without_drift(series, period)
    shape = np.bincount(code, quick, phases) / np.maximum(np.bincount(code, minlength=phases), 1)
    return np.asarray(series - shape[code])


@dataclass(frozen=True, slots=True)
class Newest:
    """How the newest periods go on: ``gain`` of the newest one and a half against the shape of those
    before (1 as before, 0 no longer there), its standard error ``noise``, and the unbroken ``run`` of
    samples that ends now and follows the shape."""

    gain: float
    noise: float
    run: int


BEFORE = 8
"""Periods that the newest are compared with."""
FEW = 12
"""Fewest samples that a comparison can be made on."""
FOLLOWS = 0.4
"""Gain from which a stretch follows the shape."""


def newest(series: Floats, period: float) -> Newest:
    """How ``series`` has followed ``period`` (samples) lately. It has to hold at least three periods."""
    quick = without_drift(series, period)
    age = np.arange(series.size, dtype=np.float64)[::-1]
    late = max(1.5 * period, FEW)
    phases = phases_of(period)
    code = ((1 - age / period % 1) * phases).astype(np.int64) % phases
    taught = (age >= late) & (age < late + BEFORE * period)
    count = np.bincount(code[taught], minlength=phases)
    shape = (np.bincount(code[taught], quick[taught], phases) / np.maximum(count, 1))[code]
    rest = float(((quick - shape)[taught] ** 2).mean()) if taught.any() else 0.0
    tail = age < late
    size = float((shape[tail] ** 2).sum()) + TINY
    gain = float((quick * shape)[tail].sum()) / size
    return Newest(gain, float(np.sqrt(rest / size)), _run(quick, shape, age, max(period, FEW)))


def _run(quick: Floats, shape: Floats, age: Floats, stretch: float) -> int:
    """Samples, from now backwards in whole stretches, in which the gain stays up."""
    part = (age / stretch).astype(np.int64)
    both, size = np.bincount(part, quick * shape), np.bincount(part, shape**2)
    broken = np.flatnonzero(both < FOLLOWS * size)
    return int((broken[0] if broken.size else part[0] + 1) * stretch)
