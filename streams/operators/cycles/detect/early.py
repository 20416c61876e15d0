"""Finds a cycle that has only begun: two and a half periods, found by how well they repeat.

The spectrum needs three periods, as a line has to stand out from its surroundings. What began a moment ago
can be found sooner, from the samples themselves: the squared difference of a series to itself a lag ago has a
sharp minimum at the period (A. de Cheveigné, H. Kawahara 2002, "YIN").
"""

import numpy as np

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats
from streams.operators.cycles.detect.confidence import chance
from streams.operators.cycles.detect.spectrum import SHORTEST, standardise

LEAST, LONGEST = 16, 360
"""Bounds of the part, in samples: a longer one has enough periods, or none that has only begun."""
LEAST_PERIOD, SLOWEST = 4, 100
"""Bounds of the period, in samples: of the slowest the spectrum knows before the part is too long."""
FEWEST, MOST = 2.35, 4.2
"""Periods in the part."""
ALIKE, NOISE = 1.3, 0.02
"""A shorter period counts if it differs by at most so many times the least difference, and so much more."""
WEIGHTS = (-16.047, -16.485, 11.98, 0.821, 2.719, 8.131)
"""Of the figures of ``_evidence``: a logistic regression, fitted as ADR 5 says."""
TINY = 0.01  # bounds the evidence of what repeats exactly
QUICK = 1.2
"""A period is an alias, if a line below three samples is so many times as strong as any slower one."""


@kernel
def _differences(series: Floats) -> Floats:
    """Return the variance of the difference of the series (variance 1) to itself a lag ago, over twice its
    own: 0 if it repeats exactly, about 1 if it does not at all. Of lags from 0 to past the longest period."""
    length = series.size
    lags = int(min(length / FEWEST, float(SLOWEST))) + 3
    both, sums, squares = np.zeros(lags), np.zeros(length + 1), np.zeros(length + 1)
    for at in range(length):
        sums[at + 1] = sums[at] + series[at]
        squares[at + 1] = squares[at] + series[at] ** 2
        for lag in range(min(lags, length - at)):
            both[lag] += series[at] * series[at + lag]
    for lag in range(lags):
        count = length - lag
        power = squares[count] + squares[length] - squares[lag]
        rise = (sums[length] - sums[lag] - sums[count]) / count
        both[lag] = max((power - 2 * both[lag]) / count - rise**2, 0.0) / 2
    return both


@kernel
def _evidence(off: Floats, top: int, length: int, evidence: Floats) -> None:
    """Write into ``evidence`` what speaks for a period of ``top`` samples."""
    beside = np.inf
    for lag in range(off.size):
        if abs(lag - top / 2) <= 1:
            beside = min(beside, off[lag])
    evidence[0] = 1.0
    evidence[1] = np.log(off[top] + TINY)
    evidence[2] = np.log(off[top] / (off[: top + 1].sum() / top + TINY) + TINY)
    evidence[3] = np.log(float(length))
    evidence[4] = np.log(off[1] + TINY)
    evidence[5] = beside


@kernel
def _is_quicker(off: Floats, top: int) -> bool:
    """Tell whether the period of ``top`` samples is a multiple or an alias of one below three.

    The transform of how alike the series is to itself at each lag is the power of its lines.
    """
    slow, quick = 0.0, 0.0
    for line in range(1, top // 2 + 1):
        power = 0.0
        for lag in range(top):
            power += (1 - off[lag]) * np.cos(2 * np.pi * line * lag / top)
        if line * SHORTEST > top:
            quick = max(quick, power)
        else:
            slow = max(slow, power)
    return quick > QUICK * slow


@entry("UniTuple(float64, 2)(float64[::1], float64, float64, float64[::1])")
def repeats(samples: Floats, flat: float, least_chance: float, evidence: Floats) -> tuple[float, float]:
    """Return the likeliest period of ``samples`` (oldest first, ``LEAST`` to ``LONGEST`` of them, no NaN),
    and the chance (0-1) that it is that of a cycle; 0 if nothing repeats, or with less than ``least_chance``.
    What the chance follows from is written into ``evidence``.

    What spreads by less than the share ``flat`` of its mean does not repeat.
    """
    length = samples.size
    series = np.empty(length)
    if not standardise(samples, flat, series):
        return 0.0, 0.0
    off = _differences(series)
    first = int(np.ceil(max(length / MOST, float(LEAST_PERIOD))))
    last = min(int(min(length / FEWEST, float(SLOWEST))), off.size - 2)
    least = np.inf
    for lag in range(first, last + 1):
        if off[lag] <= off[lag - 1] and off[lag] <= off[lag + 1]:
            least = min(least, off[lag])
    if least >= 1:
        return 0.0, 0.0
    top = first
    while not (off[top] <= off[top - 1] and off[top] <= off[top + 1] and off[top] <= ALIKE * least + NOISE):
        top += 1
    _evidence(off, top, length, evidence)
    likelihood = chance(evidence, WEIGHTS)
    # The transform is most of the work, and what is unlikely needs none.
    if likelihood < least_chance or _is_quicker(off, top):
        return 0.0, 0.0
    before, after = off[top - 1], off[top + 1]
    bend = before - 2 * off[top] + after
    off_top = (before - after) / 2 / bend if bend > 0 else 0.0
    return top + off_top, likelihood
