"""How known cycles go on: whether their newest periods still have the shape of those before.

The newest one and a half periods are projected on the mean shape of the eight before them. The *gain* is the
least-squares factor: 1 for the same shape, 0 for none of it.
"""

from typing import NamedTuple

import numpy as np

from streams.operators.columns.arrays import Bools, Floats, Ints
from streams.operators.cycles.detect.fold import TINY, counts, phase_of, phases_of, sums, without_drift

BEFORE = 8
"""Periods that the newest are compared with."""
NEWEST = 1.5
"""Periods that count as the newest."""
FEW = 12
"""Fewest samples that a comparison can be made on."""
UNKNOWN = 0.1
"""Variance of the gain that a stretch more would have had: what few stretches say is not certain."""
FOLLOWS = 0.4
"""Gain from which a stretch follows the shape."""


class Followed(NamedTuple):
    """How each series goes on; each of shape (series,).

    ``gain`` is the size of the cycle's shape in the newest periods, 1 as before and 0 no longer there;
    ``noise`` is its standard error; ``run`` is how many samples up to now follow the shape unbroken, and
    ``strayed`` how many up to now do not follow it any more, if it has ended.
    """

    gain: Floats
    noise: Floats
    run: Ints
    strayed: Ints


def follow(series: Floats, period: Floats, known: Ints) -> Followed:
    """How the rows of ``series`` have followed their ``period`` (samples), of which they hold three.

    Of each row only the newest ``known`` samples are used.
    """
    quick = without_drift(series, period)
    age = np.arange(series.shape[1], dtype=np.float64)[::-1]
    late = np.maximum(NEWEST * period, FEW)[:, np.newaxis]
    taught = (age >= late) & (age < late + BEFORE * period[:, np.newaxis]) & (age < known[:, np.newaxis])
    shape = _shape(quick, age, period, taught)
    error = (((quick - shape) * taught) ** 2).sum(axis=1) / np.maximum(taught.sum(axis=1), 1)
    tail = age < late
    # About its mean, and without a moving average: where a cycle ends, both would go on for a while.
    centred = (shape - _mean(shape, tail)) * tail
    power = (centred**2).sum(axis=1) + TINY
    level = series - _slope(series, age, taught) * age
    gain = ((level - _mean(level, tail)) * centred).sum(axis=1) / power
    stretch = np.maximum(period, FEW)
    gains = _per_stretch(quick * shape, shape**2 * (age < known[:, np.newaxis]), age, stretch)
    noise = np.sqrt(error / power + _unsteadiness(gains, (known / stretch).astype(np.int64)))
    # The first stretch that does not follow; there is one, after the oldest.
    run = np.minimum((gains < FOLLOWS).argmax(axis=1) * stretch, known)
    off = level - _mean(level, taught) - shape + _mean(shape, taught)
    strayed = _strayed(
        off, error, (shape * shape * taught).sum(axis=1) / np.maximum(taught.sum(axis=1), 1), late
    )
    return Followed(gain, noise, run.astype(np.int64), strayed)


def _shape(quick: Floats, age: Floats, period: Floats, taught: Bools) -> Floats:
    """The mean shape of the samples ``taught``, laid under all samples."""
    phases = phases_of(period)
    phase = phase_of(age / period[:, np.newaxis], phases[:, np.newaxis])
    size = (len(quick), int(phases.max(initial=1)) + 1)
    # What teaches nothing goes to a phase of its own.
    code = np.where(taught, phase, size[1] - 1) + np.arange(size[0])[:, np.newaxis] * size[1]
    mean = sums(code, quick, size) / np.maximum(counts(code, size), 1.0)
    return np.take_along_axis(mean, phase, axis=1)


def _strayed(off: Floats, noise: Floats, power: Floats, late: Floats) -> Ints:
    """How many of the newest samples are too far ``off`` the shape: those whose squares exceed by most, in
    sum, what lies between the noise's variance and that of the shape (E. S. Page 1954, backwards)."""
    bound = noise + power / 2
    reach = min(int(2 * late.max(initial=1)), off.shape[1])
    excess = (off[:, : -reach - 1 : -1] ** 2 - bound[:, np.newaxis]).cumsum(axis=1)
    return np.asarray(np.where(excess.max(axis=1) > 0, excess.argmax(axis=1) + 1, 0), np.int64)


def _mean(values: Floats, where: Bools) -> Floats:
    """Mean of each row where ``where``, as a column."""
    total = (values * where).sum(axis=1, keepdims=True)
    return np.asarray(total / np.maximum(where.sum(axis=1, keepdims=True), 1))


def _slope(values: Floats, age: Floats, where: Bools) -> Floats:
    """Least-squares slope of each row over ``age`` where ``where``, as a column."""
    off = (age - _mean(age, where)) * where
    return np.asarray(
        (values * off).sum(axis=1, keepdims=True) / ((off**2).sum(axis=1, keepdims=True) + TINY)
    )


def _per_stretch(both: Floats, power: Floats, age: Floats, stretch: Floats) -> Floats:
    """The gain of each stretch of samples, from now backwards; -inf after the oldest."""
    part = (age / stretch[:, np.newaxis]).astype(np.int64)
    size = (len(both), int(part.max(initial=0)) + 2)
    code = part + np.arange(size[0])[:, np.newaxis] * size[1]
    times = sums(code, both, size), sums(code, power, size)
    return np.where(times[1] > 0, times[0] / np.where(times[1] > 0, times[1], 1.0), -np.inf)


def _unsteadiness(gains: Floats, whole: Ints) -> Floats:
    """Variance of the gain over the stretches before the newest two: bursts that jitter, cycles that vary.

    Of the ``whole`` ones: a rest of a few samples may have any gain.
    """
    before = gains[:, 2 : 2 + BEFORE]
    known = np.isfinite(before) & (np.arange(before.shape[1]) + 2 < whole[:, np.newaxis])
    count = known.sum(axis=1)
    off = np.where(known, before - 1.0, 0.0)
    return np.asarray(((off**2).sum(axis=1) + UNKNOWN) / np.maximum(count, 1))
