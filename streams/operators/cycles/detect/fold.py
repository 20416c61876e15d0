"""Folds a series at a period: does each period look like the others?

Epoch folding (D. A. Leahy et al. 1983), cross-validated: the periods are dealt into blocks, and each
block is held against the mean shape of all others. A step, a pulse or a wander fits itself, but not
those.
"""

import numpy as np

from streams.compiled import kernel
from streams.operators.columns.arrays import Floats
from streams.operators.cycles.detect.spectrum import ALMOST

BLOCKS = 6
PHASES = 16
TINY = 1e-12  # a series without any variance within its periods divides by this
SMOOTHED = 16
"""Fewest samples of a mean that is taken for drift."""


@kernel
def phases_of(period: float, most: int = PHASES) -> int:
    """Return into how many phases a period of so many samples is divided."""
    return int(min(max(period, 3.0), float(most)))


@kernel
def phase_of(ago: int, period: float, phases: int) -> int:
    """Return into which of so many phases a sample falls that is ``ago`` samples old, the newest into the
    last."""
    age = ago / period
    phase = int((1 - (age - int(age))) * phases)
    return phase if phase < phases else 0


@kernel
def without_drift(series: Floats, period: float) -> Floats:
    """Return ``series`` less its means over the surrounding ``period``, which takes out what is slower.

    Of short periods the means are over several: a mean over whole samples is then nearly one over whole
    periods, and takes nothing out of these.
    """
    size = series.size
    width = min(max(int(period * np.ceil(SMOOTHED / period) + 0.5), 2), size)
    sums = np.empty(size + 1)
    sums[0] = 0.0
    for at in range(size):
        sums[at + 1] = sums[at] + series[at]
    quick = np.empty(size)
    before, share = width // 2, 1 / width
    for at in range(size):
        low = min(max(at - before, 0), size - width)
        quick[at] = series[at] - (sums[low + width] - sums[low]) * share
    return quick


@kernel
def fold(series: Floats, period: float, phases: int) -> tuple[int, float, float, float]:
    """Tell how well the whole periods repeat of a ``series`` (variance 1) with a ``period`` (samples) that
    fits in twice or more, cut into so many phases.

    Their number; the share of the variance within periods that the shape of the other blocks predicts (at
    most 1, below 0 if worse than a constant); what that is in units of the series' variance, which periods
    of any length compare by; and the variance within periods in that unit.
    """
    quick = without_drift(series, period)
    size = quick.size
    periods = int(size / period + ALMOST)
    blocks = min(BLOCKS, periods)
    total, count = np.zeros((BLOCKS, phases)), np.zeros((BLOCKS, phases))
    squares, samples = 0.0, 0
    for ago in range(size):
        whole = int(ago / period)
        # What is older than the whole periods is left out.
        if whole >= periods:
            break
        value = quick[size - 1 - ago]
        block, phase = whole * blocks // periods, phase_of(ago, period, phases)
        total[block, phase] += value
        count[block, phase] += 1
        squares += value * value
        samples += 1
    gained = 0.0
    for phase in range(phases):
        sum_, all_ = 0.0, 0.0
        for block in range(blocks):
            sum_ += total[block, phase]
            all_ += count[block, phase]
        for block in range(blocks):
            shape = (sum_ - total[block, phase]) / max(all_ - count[block, phase], 1.0)
            gained += 2 * total[block, phase] * shape - count[block, phase] * shape * shape
    return periods, gained / (squares + TINY), gained / samples, squares / samples


@kernel
def without_shape(series: Floats, period: float) -> Floats:
    """Return ``series`` less its mean shape over ``period``."""
    phases = phases_of(period, 4 * PHASES)
    quick = without_drift(series, period)
    total, count = np.zeros(phases), np.zeros(phases)
    for ago in range(series.size):
        phase = phase_of(ago, period, phases)
        total[phase] += quick[series.size - 1 - ago]
        count[phase] += 1
    rest = np.empty(series.size)
    for ago in range(series.size):
        phase = phase_of(ago, period, phases)
        rest[series.size - 1 - ago] = series[series.size - 1 - ago] - total[phase] / max(count[phase], 1.0)
    return rest
