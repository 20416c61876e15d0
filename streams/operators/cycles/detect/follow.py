"""Tells how a known cycle goes on: whether its newest periods still have the shape of those before.

The newest one and a half periods are projected on the mean shape of the eight before them. The *gain* is the
least-squares factor: 1 for the same shape, 0 for none of it.
"""

import numpy as np

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats
from streams.operators.columns.vectors import average
from streams.operators.cycles.detect.fold import TINY, phase_of, phases_of, without_drift
from streams.operators.cycles.detect.spectrum import ALMOST, FEWEST

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
LEAST = 96
"""Samples in which a quick cycle is followed, if there are so many: they tell how steady it is."""


@kernel
def _shape(quick: Floats, period: float, tail: int, taught: int) -> Floats:
    """Return the mean shape of the samples ``tail`` to ``taught``, laid under all samples."""
    phases = phases_of(period)
    total, count = np.zeros(phases), np.zeros(phases)
    for ago in range(tail, taught):
        phase = phase_of(ago, period, phases)
        total[phase] += quick[ago]
        count[phase] += 1
    shape = np.empty(quick.size)
    for ago in range(quick.size):
        phase = phase_of(ago, period, phases)
        shape[ago] = total[phase] / max(count[phase], 1.0)
    return shape


@kernel
def _level(series: Floats, tail: int, taught: int) -> Floats:
    """Return ``series`` without the slope that the samples ``tail`` to ``taught`` have."""
    middle = (tail + taught - 1) / 2
    both, power = 0.0, TINY
    for ago in range(tail, taught):
        both += series[ago] * (ago - middle)
        power += (ago - middle) ** 2
    level = np.empty(series.size)
    for ago in range(series.size):
        level[ago] = series[ago] - both / power * ago
    return level


@kernel
def _per_stretch(quick: Floats, shape: Floats, stretch: float) -> Floats:
    """Return the gain of each stretch of samples, from now backwards."""
    parts = int((quick.size - 1) / stretch) + 1
    both, power = np.zeros(parts), np.zeros(parts)
    for ago in range(quick.size):
        part = int(ago / stretch)
        both[part] += quick[ago] * shape[ago]
        power[part] += shape[ago] ** 2
    for part in range(parts):
        both[part] = both[part] / power[part] if power[part] > 0 else -np.inf
    return both


@kernel
def _follow(series: Floats, period: float) -> tuple[float, float, int, int]:
    """Tell how a ``series`` has followed its ``period`` (samples), of which it holds three.

    The gain of the newest periods, 1 as before and 0 no longer there; its standard error; how many samples up
    to now follow the shape unbroken; and how many do not follow it any more, if it has ended.
    """
    size = series.size
    quick = without_drift(series, period)
    late = max(NEWEST * period, float(FEW))
    tail = min(int(np.ceil(late)), size)
    taught = min(int(np.ceil(late + BEFORE * period)), size)
    # From here on everything is counted backwards from now.
    newest = quick[::-1].copy()
    shape = _shape(newest, period, tail, taught)
    error, power = 0.0, 0.0
    for ago in range(tail, taught):
        error += (newest[ago] - shape[ago]) ** 2
        power += shape[ago] ** 2
    count = max(taught - tail, 1)
    error, power = error / count, power / count
    level = _level(series[::-1].copy(), tail, taught)
    # About its mean, and without a moving average: where a cycle ends, both would go on for a while.
    middle, rest = average(shape[:tail]), average(level[:tail])
    size_, both = TINY, 0.0
    for ago in range(tail):
        size_ += (shape[ago] - middle) ** 2
        both += (level[ago] - rest) * (shape[ago] - middle)
    stretch = max(period, float(FEW))
    gains = _per_stretch(newest, shape, stretch)
    # How much the gain varies over the stretches before the newest two, by bursts that jitter and cycles that
    # vary: of the whole ones, as a rest of a few samples may have any gain.
    varied, whole = UNKNOWN, 0
    for part in range(2, min(2 + BEFORE, int(size / stretch), gains.size)):
        if np.isfinite(gains[part]):
            varied += (gains[part] - 1) ** 2
            whole += 1
    noise = np.sqrt(error / size_ + varied / max(whole, 1))
    # The first stretch that does not follow; there is one, after the oldest.
    run = 0
    while run < gains.size and gains[run] >= FOLLOWS:
        run += 1
    # How many of the newest samples are too far off the shape: those whose squares exceed by most, in sum, a
    # bound between the noise's variance and that of the shape (E. S. Page 1954, backwards).
    middle = average(level[tail:taught]) - average(shape[tail:taught]) if taught > tail else 0.0
    excess, most, strayed = 0.0, 0.0, 0
    for ago in range(min(int(2 * late), size)):
        excess += (level[ago] - shape[ago] - middle) ** 2 - (error + power / 2)
        if excess > most:
            most, strayed = excess, ago + 1
    return both / size_, noise, int(min(run * stretch, float(size))), strayed


@kernel
def samples_to_follow(period: float) -> int:
    """Return how many samples the gain of a ``period`` needs."""
    return max(int(max(NEWEST * period, float(FEW)) + (BEFORE + 1) * period), LEAST)


@kernel
def _is_known(samples: int, period: float) -> bool:
    return period >= 2 and samples >= max((FEWEST - ALMOST) * period, 2.0 * FEW)


@kernel
def follow_newest(window: Floats, period: float) -> tuple[bool, float, float, int]:
    """Tell whether a ``window`` is long enough to follow its ``period`` (samples) in, and of the newest of
    its samples the gain, its standard error, and how many samples do not follow any more."""
    if not _is_known(window.size, period):
        return False, 0.0, 0.0, 0
    gain, noise, _, strayed = _follow(window[max(window.size - samples_to_follow(period), 0) :], period)
    return True, gain, noise, strayed


@entry("int64(float64[::1], float64)")
def unbroken(series: Floats, period: float) -> int:
    """Return how many samples up to now follow their ``period`` unbroken; all of too few."""
    if not _is_known(series.size, period):
        return series.size
    return max(_follow(series, period)[2], int(period + 0.5))
