"""A cycle that has only begun: two and a half periods, found by how well they repeat.

The spectrum needs three periods, as a line has to stand out from its surroundings. What began a moment ago
can be found sooner, from the samples themselves: the squared difference of a series to itself a lag ago has a
sharp minimum at the period (A. de Cheveigné, H. Kawahara 2002, "YIN"). Many series at once.
"""

from dataclasses import dataclass

import numpy as np

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.cycles.detect.spectrum import FLAT, standardised

LEAST, LONGEST = 16, 360
"""Bounds of the part, in samples: a longer one has enough periods, or none that has only begun."""
TRANSFORMED = 512
"""Length of the transforms: no lag wraps around."""
SHORTEST, SLOWEST = 4, 100
"""Bounds of the period, in samples: of the slowest the spectrum knows before the part is too long."""
FEWEST, MOST = 2.35, 4.2
"""Periods in the part."""
ALIKE, NOISE = 1.3, 0.02
"""A shorter period counts if it differs by at most so many times the least difference, and so much more."""
WEIGHTS = (-16.047, -16.485, 11.98, 0.821, 2.719, 8.131)
"""Of the parts of ``Repeats.evidence``: a logistic regression, fitted by ``bench/fit_cycle.py``."""
TINY = 0.01


@dataclass(frozen=True, slots=True)
class Repeats:
    """The likeliest period (samples) of each of ``rows``, those that have any.

    ``evidence`` of shape (periods, parts) is what the chance of it follows from.
    """

    rows: Ints
    period: Floats
    evidence: Floats

    @property
    def confidence(self) -> Floats:
        """The chance (0-1) that each is the period of a cycle."""
        return np.asarray(1 / (1 + np.exp(-(self.evidence * WEIGHTS).sum(axis=1))))


def repeats(samples: Floats, flat: float = FLAT) -> Repeats:
    """What repeats in the rows of ``samples`` (oldest first, ``LEAST`` to ``LONGEST`` of them, no NaN).

    What spreads by less than the share ``flat`` of its mean does not.
    """
    length = samples.shape[1]
    off = _differences(standardised(samples, flat))
    lag = np.arange(off.shape[1])
    low = np.zeros(off.shape, np.bool_)
    low[:, 1:-1] = (off[:, 1:-1] <= off[:, :-2]) & (off[:, 1:-1] <= off[:, 2:])
    low &= (lag >= max(length / MOST, SHORTEST)) & (lag <= min(length / FEWEST, SLOWEST))
    least = np.where(low, off, np.inf).min(axis=1)
    rows = np.flatnonzero(least < 1)
    off, close = off[rows], (ALIKE * least[rows] + NOISE)[:, np.newaxis]
    top = (low[rows] & (off <= close)).argmax(axis=1)
    every = np.arange(rows.size)
    before, at, after = off[every, top - 1], off[every, top], off[every, top + 1]
    bend = before - 2 * at + after
    period = top + np.where(bend > 0, (before - after) / 2 / np.where(bend > 0, bend, 1.0), 0.0)
    return Repeats(rows, period, _evidence(off, top, length))


def _differences(series: Floats) -> Floats:
    """Variance of the difference of each row (variance 1) to itself a lag ago, over twice its own: 0 if it
    repeats exactly, about 1 if it does not at all. Of lags from 0 to past the longest period."""
    length = series.shape[1]
    lags = np.arange(int(min(length / FEWEST, SLOWEST)) + 3)
    spectrum = np.fft.rfft(series, TRANSFORMED, axis=1)
    both = np.fft.irfft(spectrum.real**2 + spectrum.imag**2, TRANSFORMED, axis=1)[:, lags]
    sums, squares = (
        np.concatenate((np.zeros((len(series), 1)), one.cumsum(axis=1)), axis=1)
        for one in (series, series**2)
    )
    count = length - lags
    older, newer = squares[:, count], squares[:, -1:] - squares[:, lags]
    rise = (sums[:, -1:] - sums[:, lags] - sums[:, count]) / count
    return np.asarray(np.maximum((older + newer - 2 * both) / count - rise**2, 0.0) / 2)


def _evidence(off: Floats, top: Ints, length: int) -> Floats:
    """What speaks for periods of ``top`` samples, shape (periods, 6)."""
    every, lag = np.arange(top.size), np.arange(off.shape[1])
    mean = np.where(lag <= top[:, np.newaxis], off, 0.0).sum(axis=1) / top
    beside = np.abs(lag - top[:, np.newaxis] / 2) <= 1
    at = off[every, top]
    parts = (
        np.ones(top.size),
        np.log(at + TINY),
        np.log(at / (mean + TINY) + TINY),
        np.full(top.size, np.log(length)),
        np.log(off[:, 1] + TINY),
        np.where(beside, off, np.inf).min(axis=1, initial=np.inf),
    )
    return np.stack(parts, axis=1)
