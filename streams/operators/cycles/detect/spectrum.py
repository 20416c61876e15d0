"""Finds where a cycle could be: lines in the spectrum that stand out from their surroundings, at multiples.

A cycle of period P over n samples is a comb of lines at k n / P; noise, drift and random walks have
spectra that are smooth over a few bins. So each frequency is held against its own neighbours at whole
bins, where a steady line of the frequency itself leaves nothing (D. J. Thomson 1982, local F-test; here
with a geometric mean, which neighbouring lines cannot blow up). The evidence of the first harmonics adds
up as in R. A. Fisher's method, and is compared with what chance gives to so many of them.
"""

import numpy as np
import numpy.typing as npt

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats
from streams.operators.columns.vectors import average
from streams.operators.cycles.detect.active import span_of
from streams.operators.cycles.detect.single import exp, log

FINE = 8
"""Points per bin of the spectrum (zero padding)."""
NEAR = 6
"""How many bins on either side are a frequency's surroundings."""
HARMONICS = 8
BY_CHANCE = (13.8, 16.7, 19.1, 21.4, 23.4, 25.4, 27.3, 29.2)
"""What the evidence of 1, 2, … lines exceeds by chance once in a million: quantiles of Gamma(h, 1)."""
TRIED = (True, True, True, True, False, True, False, True)
"""Whether the first 1, 2, … harmonics are added up to a score; the best sum counts."""
SHORTEST = 3.0
"""Shortest period, in samples."""
FEWEST = 3
"""Fewest periods in the window."""
ALMOST = 0.15
"""Share of a period that may be missing in the oldest one."""
LOWEST = FINE * FEWEST - FINE // 4
"""The point of the longest period that can be found."""
# Noise has a power that is distributed exponentially: the mean of its logarithm lies below the logarithm of
# its mean by Euler's constant. Without it each point would seem to stand out by as much.
EULER = 0.5772
NORMAL = 0.6745
"""Median of the absolute value of a standard normal variable."""
FLOOR, TINY = 1e-12, 1e-30
"""Least power of a point, as a share of the mean and at all: a logarithm follows."""
FLAT = 1e-6
"""A spread below this share of the mean is the storage's rounding."""

Singles = npt.NDArray[np.float32]
Lines = npt.NDArray[np.complex64]
_SCORED = np.array(BY_CHANCE, np.float32)


@kernel
def _dithers(samples: Floats) -> bool:
    """Tell whether they are whole numbers no more than one apart: a constant, rounded now up and now down."""
    low, high = span_of(samples)
    if high != low and (high != low + 1 or low != np.floor(low)):
        return False
    for value in samples:  # noqa: SIM110 - numba compiles a loop sooner
        if value not in (low, high):
            return False
    return True


@kernel
def _middle(values: Floats) -> float:
    """Return the upper median of ``values``, which are rearranged (C. A. R. Hoare 1961, "Find")."""
    first, last, middle = 0, values.size - 1, values.size // 2
    while first < last:
        pivot, low, high = values[middle], first, last
        while low <= high:
            while values[low] < pivot:
                low += 1
            while values[high] > pivot:
                high -= 1
            if low <= high:
                values[low], values[high] = values[high], values[low]
                low, high = low + 1, high - 1
        if high < middle:
            first = low
        if low > middle:
            last = high
    return float(values[middle])


@kernel
def noise_of(series: Floats) -> float:
    """Return the variance of white noise whose differences have the median of those of the series: jumps do
    not count (F. Hampel 1974, median absolute deviation)."""
    off = np.empty(series.size - 1)
    for at in range(off.size):
        off[at] = abs(series[at + 1] - series[at])
    return float((_middle(off) / NORMAL) ** 2 / 2)


@kernel
def evidence_of(lines: Lines, length: int) -> tuple[Singles, Singles]:
    """Return the power at each point of the spectrum of ``length`` samples (variance 1), point j lying at j /
    FINE bins; and minus the logarithm of the chance that surroundings alone give the point so much.

    Each loop does little, so that it is done for several points at once.
    """
    points = lines.size
    power, logs = np.empty(points, np.float32), np.empty(points, np.float32)
    off, count = np.empty(points, np.float32), np.empty(points, np.float32)
    floor = np.float32(FLOOR * length + TINY)  # the mean power is the length
    for point in range(points):
        power[point] = lines[point].real * lines[point].real + lines[point].imag * lines[point].imag
    for point in range(points):
        logs[point] = log(power[point] + floor)
    sums = np.zeros(points + FINE, np.float32)
    for point in range(points):
        sums[point + FINE] = sums[point] + logs[point]
    bins = points // FINE
    for place in range(bins):
        reach = min(max(min(place - 1, bins - 1 - place), 1), NEAR)
        low, high = max(place - reach, 0) * FINE, min(place + reach + 1, bins) * FINE
        others = np.float32((high - low) // FINE - 1)
        for fine in range(FINE):
            point = place * FINE + fine
            around = sums[high + fine] - sums[low + fine] - logs[point]
            off[point] = logs[point] - around / others - np.float32(EULER)
            count[point] = others
    for point in range(points):
        off[point] = exp(off[point])
    for point in range(points):
        off[point] = count[point] * log(np.float32(1) + off[point] / count[point])
    return power, off


@kernel
def scores(evidence: Singles, length: int) -> Singles:
    """Tell how far the harmonics of each fundamental stand out.

    Place c is the fundamental at point ``LOWEST + c``, of a series of ``length`` samples. In units of the
    natural logarithm of chance; above 0 is rarer than one in a million.
    """
    points = evidence.size
    last = min(int(FINE * length / SHORTEST), points)
    total = np.zeros(last - LOWEST, np.float32)
    best = np.full(last - LOWEST, -np.inf, np.float32)
    for harmonic in range(1, HARMONICS + 1):
        for place in range(min(last, (points - 1) // harmonic + 1) - LOWEST):
            total[place] += evidence[harmonic * (place + LOWEST)]
        if TRIED[harmonic - 1]:
            for place in range(min(last, (points - 1) // harmonic + 1) - LOWEST):
                best[place] = max(best[place], total[place] - _SCORED[harmonic - 1])
    return best


@kernel
def highest(score: Singles) -> tuple[int, float]:
    """Take out the highest of the scores, with a bin on either side; return its point and its height."""
    top = 0
    for place in range(score.size):
        if score[place] > score[top]:
            top = place
    height = float(score[top])
    score[max(top - FINE, 0) : top + FINE + 1] = -np.inf
    return top + LOWEST, height


@kernel
def highest_near(evidence: Singles, place: float, reach: float) -> tuple[float, int]:
    """Return the best score that a fundamental near ``place`` has, and its point."""
    best, top = -np.inf, 0
    for point in range(max(int(place - reach), LOWEST), int(place + reach) + 2):
        total = np.float32(0)
        for harmonic in range(1, HARMONICS + 1):
            if harmonic * point >= evidence.size:
                break
            total += evidence[harmonic * point]
            if TRIED[harmonic - 1] and total - _SCORED[harmonic - 1] > best:
                best, top = float(total - _SCORED[harmonic - 1]), point
    return best, top


@entry("boolean(float64[::1], float64, float64[::1])")
def standardise(samples: Floats, flat: float, series: Floats) -> bool:
    """Write the samples without their linear trend, in units of their standard deviation, into ``series``.

    False, and all 0, if they are flat: if they spread by less than the share ``flat`` of their mean.
    """
    length = samples.size
    mean, middle = average(samples), (length - 1) / 2
    slope = 0.0
    for at in range(length):
        slope += (samples[at] - mean) * (at - middle)
    slope /= length * (length * length - 1.0) / 12
    square, rest = 0.0, 0.0
    for at in range(length):
        series[at] = samples[at] - mean - slope * (at - middle)
        square += series[at] ** 2
        rest += series[at]
    spread = np.sqrt(max(square / length - (rest / length) ** 2, 0.0))
    if spread <= flat * abs(mean) or _dithers(samples):
        series[:] = 0.0
        return False
    for at in range(length):
        series[at] /= spread
    return True
