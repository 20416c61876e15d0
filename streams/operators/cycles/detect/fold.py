"""Folding many series at their periods: does each period look like the others?

Epoch folding (D. A. Leahy et al. 1983), cross-validated: the periods are dealt into blocks, and each
block is held against the mean shape of all others. A step, a pulse or a wander fits itself, but not
those.
"""

from typing import NamedTuple

import numpy as np

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.cycles.detect.spectrum import ALMOST

BLOCKS = 6
PHASES = 16
TINY = 1e-12
SMOOTHED = 16
"""Fewest samples of a mean that is taken for drift."""


class Folds(NamedTuple):
    """How well whole periods repeat, of several series; each of shape (series,).

    ``explained`` is the share of the variance within periods that the shape of the other blocks predicts
    (at most 1, below 0 if worse than a constant); ``varied`` is that variance in units of the series', and
    ``gained`` what is explained of it, which periods of any length compare by.
    """

    periods: Ints
    explained: Floats
    gained: Floats
    varied: Floats


def phases_of(period: Floats) -> Ints:
    """Into how many phases periods of so many samples are divided."""
    return np.clip(period, 3, PHASES).astype(np.int64)


def phase_of(age: Floats, phases: Ints) -> Ints:
    """Into which of so many phases a sample falls that is ``age`` periods old, the newest into the last."""
    return np.asarray(((1 - age % 1) * phases).astype(np.int64) % phases)


def without_drift(series: Floats, period: Floats) -> Floats:
    """``series`` (rows) less their means over the surrounding ``period``, which takes out what is slower.

    Of short periods the means are over several: a mean over whole samples is then nearly one over whole
    periods, and takes nothing out of these.
    """
    size = series.shape[1]
    several = np.ceil(SMOOTHED / period)
    width = np.clip(np.rint(period * several), 2, size).astype(np.int64)[:, np.newaxis]
    sums = np.zeros((len(series), size + 1))
    np.cumsum(series, axis=1, out=sums[:, 1:])
    low = np.clip(np.arange(size) - width // 2, 0, size - width)
    rise = np.take_along_axis(sums, low + width, axis=1) - np.take_along_axis(sums, low, axis=1)
    return np.asarray(series - rise / width)


def fold(series: Floats, period: Floats, phases: Ints) -> Folds:
    """Fold each row of ``series`` (variance 1) at its ``period`` (samples) into so many phases.

    A row has to hold two periods at least.
    """
    quick = without_drift(series, period)
    age = np.arange(series.shape[1], dtype=np.float64)[::-1] / period[:, np.newaxis]
    whole = np.floor(age)
    phase = phase_of(age, phases[:, np.newaxis])
    periods = (series.shape[1] / period + ALMOST).astype(np.int64)
    blocks = np.minimum(BLOCKS, periods)
    block = whole.astype(np.int64) * blocks[:, np.newaxis] // periods[:, np.newaxis]
    # What is older than the whole periods goes into a block of its own, which is left out below.
    block = np.minimum(block, BLOCKS)
    quick[whole >= periods[:, np.newaxis]] = 0.0
    shape = (len(series), BLOCKS + 1, int(phases.max(initial=1)))
    code = (np.arange(shape[0])[:, np.newaxis] * shape[1] + block) * shape[2] + phase
    total, count = sums(code, quick, shape)[:, :BLOCKS], counts(code, shape)[:, :BLOCKS]
    used = np.arange(BLOCKS) < blocks[:, np.newaxis]
    count *= used[:, :, np.newaxis]
    return _compared(total, count, (quick**2).sum(axis=1), periods)


def sums(code: Ints, values: Floats, shape: tuple[int, ...]) -> Floats:
    """The sum of the values of each code."""
    flat = np.bincount(code.ravel(), values.ravel(), int(np.prod(shape)))
    return np.asarray(flat, np.float64).reshape(shape)


def counts(code: Ints, shape: tuple[int, ...]) -> Floats:
    """How often each code occurs."""
    return np.bincount(code.ravel(), minlength=int(np.prod(shape))).astype(np.float64).reshape(shape)


def _compared(total: Floats, count: Floats, squares: Floats, periods: Ints) -> Folds:
    rest = count.sum(axis=1, keepdims=True) - count
    shape = (total.sum(axis=1, keepdims=True) - total) / np.maximum(rest, 1.0)
    gained = (2 * total * shape - count * shape**2).sum(axis=(1, 2))
    samples = np.maximum(count.sum(axis=(1, 2)), 1.0)
    return Folds(periods, gained / (squares + TINY), gained / samples, squares / samples)


def without_shape(series: Floats, period: Floats) -> Floats:
    """``series`` (rows) less their mean shapes over ``period``."""
    phases = np.clip(period, 3, 4 * PHASES).astype(np.int64)[:, np.newaxis]
    age = np.arange(series.shape[1], dtype=np.float64)[::-1] / period[:, np.newaxis]
    shape = (len(series), 4 * PHASES)
    code = np.arange(shape[0])[:, np.newaxis] * shape[1] + phase_of(age, phases)
    mean = sums(code, without_drift(series, period), shape) / np.maximum(counts(code, shape), 1.0)
    return np.asarray(series - mean.ravel()[code])
