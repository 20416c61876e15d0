"""Where a cycle could be: lines in the spectrum that stand out from their surroundings, at multiples.

A cycle of period P over n samples is a comb of lines at k n / P; noise, drift and random walks have
spectra that are smooth over a few bins. So each frequency is held against its own neighbours at whole
bins, where a steady line of the frequency itself leaves nothing (D. J. Thomson 1982, local F-test; here
with a geometric mean, which neighbouring lines cannot blow up). The evidence of the first harmonics adds
up as in R. A. Fisher's method, and is compared with what chance gives to so many of them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.operators.columns.arrays import Floats, Ints

FINE = 8
"""Points per bin of the spectrum (zero padding)."""
NEAR = 6
"""How many bins on either side are a frequency's surroundings."""
HARMONICS = 8
BY_CHANCE = (13.8, 16.7, 19.1, 21.4, 23.4, 25.4, 27.3, 29.2)
"""What the evidence of 1, 2, … lines exceeds by chance once in a million: quantiles of Gamma(h, 1)."""
TRIED = (1, 2, 3, 4, 6, 8)
"""How many first harmonics are added up to a score; the best sum counts."""
SHORTEST = 3.0
"""Shortest period, in samples."""
FEWEST = 3
"""Fewest periods in the window."""
ALMOST = 0.15
"""Share of a period that may be missing in the oldest one."""
EULER = 0.5772
NORMAL = 0.6745
"""Median of the absolute value of a standard normal variable."""
FLOOR, TINY = 1e-12, 1e-30
"""Least power of a point, as a share of the mean and at all: a logarithm follows."""
FLAT = 1e-6
"""A spread below this share of the mean is the storage's rounding."""


Singles = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Spectra:
    """Spectra of several series of one length. ``lines`` and ``evidence`` have shape (series, points),
    point j lying at j / FINE bins.

    ``series`` are the samples without their linear trend, in units of their standard deviation; all 0
    for a flat series. ``noise`` is the variance of what is independent from one sample to the next.
    """

    series: Floats
    lines: npt.NDArray[np.complex64]
    evidence: Singles
    noise: Floats


def spectra(samples: Floats, flat: float = FLAT) -> Spectra:
    """Of ``samples``, shape (series, length); the length a multiple of 4.

    What spreads by less than the share ``flat`` of its mean is flat.
    """
    series = standardised(samples, flat)
    length = series.shape[1]
    # Half the precision is enough for a spectrum, and takes half the time.
    single = series.astype(np.float32)
    transform = np.fft.rfft(single, FINE * length, axis=1)
    lines = np.asarray(transform[:, : FINE * (length // 2)], np.complex64)
    power = np.asarray(lines.real**2 + lines.imag**2, np.float32)
    return Spectra(series, lines, _evidence(power, length // 2), _noise(single))


def _noise(series: Singles) -> Floats:
    """Variance of white noise whose differences have the median of those of each row: jumps do not count
    (F. Hampel 1974, median absolute deviation)."""
    off = np.abs(np.diff(series, axis=1))
    middle = off.shape[1] // 2
    median = np.partition(off, middle, axis=1)[:, middle].astype(np.float64)
    return np.asarray((median / NORMAL) ** 2 / 2)


def standardised(samples: Floats, least: float) -> Floats:
    """Each row without its linear trend, in units of its standard deviation; all 0 for a flat one."""
    length = samples.shape[1]
    moment = np.arange(length) - (length - 1) / 2
    mean = samples.mean(axis=1, keepdims=True)
    series = samples - mean
    slope = (series * moment).sum(axis=1, keepdims=True) / (moment * moment).sum()
    series -= slope * moment
    spread = series.std(axis=1, keepdims=True)
    flat = (spread <= least * np.abs(mean)) | _dithers(samples)
    return np.where(flat, 0.0, series / np.where(flat, 1.0, spread))


def _dithers(samples: Floats) -> npt.NDArray[np.bool_]:
    """Which rows hold whole numbers no more than one apart: a constant, rounded now up and now down."""
    low = samples.min(axis=1, keepdims=True)
    off = samples - low
    return np.asarray(((off == 0) | ((off == 1) & (low == np.floor(low)))).all(axis=1, keepdims=True))


def _evidence(power: Singles, bins: int) -> Singles:
    """Minus the logarithm of the chance that surroundings alone give each point its power."""
    floor = np.float32(FLOOR) * power.mean(axis=1, keepdims=True) + np.float32(TINY)
    logs = np.log(power + floor).reshape(-1, bins, FINE)
    sums = np.zeros((logs.shape[0], bins + 1, FINE), np.float32)
    np.cumsum(logs, axis=1, out=sums[:, 1:])
    place = np.arange(bins)
    reach = np.clip(np.minimum(place - 1, bins - 1 - place), 1, NEAR)
    low, high = np.maximum(place - reach, 0), np.minimum(place + reach + 1, bins)
    count = (high - low - 1)[:, np.newaxis].astype(np.float32)
    ratio = sums[:, high]
    ratio -= sums[:, low]
    ratio -= logs
    ratio /= -count
    ratio += logs
    ratio -= np.float32(EULER)
    np.exp(ratio, out=ratio)
    ratio /= count
    np.log1p(ratio, out=ratio)
    ratio *= count
    return ratio.reshape(power.shape)


def scores(evidence: Singles, length: int) -> Singles:
    """How far the harmonics of each fundamental stand out, in each row of ``evidence``.

    Column c is the fundamental at point ``lowest() + c``, of series of ``length`` samples. In units of the
    natural logarithm of chance; above 0 is rarer than one in a million.
    """
    points = evidence.shape[1]
    first, last = lowest(), min(int(FINE * length / SHORTEST), points)
    total = np.zeros((evidence.shape[0], last - first), np.float32)
    best = np.full_like(total, -np.inf)
    for harmonic in range(1, HARMONICS + 1):
        end = min(last, (points - 1) // harmonic + 1)
        if end <= first:
            break
        part = total[:, : end - first]
        part += evidence[:, harmonic * first : harmonic * (end - 1) + 1 : harmonic]
        if harmonic in TRIED:
            np.maximum(best[:, : end - first], part - BY_CHANCE[harmonic - 1], out=best[:, : end - first])
    return best


def lowest() -> int:
    """The point of the longest period that can be found."""
    return FINE * FEWEST - FINE // 4


def highest_peaks(score: Singles, most: int, least: float) -> tuple[Ints, Ints, Floats]:
    """The ``most`` highest peaks of each row of ``scores`` that reach ``least``: rows, points and scores.

    Those of one row are at least a bin apart, highest first.
    """
    left = score.copy()
    rows = np.arange(len(left))
    around = np.arange(-FINE, FINE + 1)
    found: list[tuple[Ints, Ints, Floats]] = []
    for _ in range(most):
        top = left[rows].argmax(axis=1)
        height = left[rows, top]
        high = height >= least
        rows, top, height = rows[high], top[high], height[high]
        found.append((rows, top + lowest(), height.astype(np.float64)))
        beside = np.clip(top[:, np.newaxis] + around, 0, left.shape[1] - 1)
        left[rows[:, np.newaxis], beside] = -np.inf
    return tuple(np.concatenate(part) for part in zip(*found, strict=True))  # type: ignore[return-value]
