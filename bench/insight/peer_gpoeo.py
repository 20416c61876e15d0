"""The period detector of GPOEO, written anew from F. Wang and others, "Dynamic GPU Energy Optimization for
Machine Learning Training Workloads", IEEE TPDS 2022, and from how its published program behaves.

Candidates are the strong peaks of the spectrum. Each cuts the series into periods; of two that follow on
one another the samples are put into groups, by runs near the commonest level and away from it, and the
groups' means are compared. The candidate of least difference is refined by trying periods around it. All
this is done again for shorter and shorter ends of the series: only if the answers agree there is a period.

Left out: the low-pass filter (our samples are means of a second already), and the merging of groups by
their means; runs shorter than a 25th of the period join the one before instead. Answers are not handed on
as candidates to the ends that follow: with them twice as many series of noise had a period.
"""

import numpy as np
import numpy.typing as npt
import scipy  # its signal is loaded when it is used

from bench.generators import Floats

SHORTEST = 3.5
"""Samples: what is faster, their filter removes."""
STRONG = 0.65
"""Share of the strongest peak that a candidate has."""
AROUND, TRIALS = 0.15, 8
FORWARD = 0.5
"""Share of the period by which the beginning moves on."""
LEAST_FORWARD = 0.04
"""The least by which it does, as a share of the series: this bounds the work."""
ENOUGH = 2.8
"""Periods that the rest has to hold."""
AGREEING = 0.10
"""Spread of the answers over their mean, below which they agree."""
QUANTILES, DENSE = (0.2, 0.4, 0.6, 0.8), 0.33
SHORT = 0.04
MUCH_LONGER = 1.7
FEWEST = 3
NEVER = 1e4


def gpoeo(series: Floats) -> float | None:
    """The period in samples."""
    longest = series.size / 3
    found: list[float] = []
    errors: list[float] = []
    left = float(series.size)
    while not found or left / max(found) >= ENOUGH:
        period, error = _period(series[round(series.size - left) :], longest)
        if period is None or period > left / 2:
            break
        found.append(period)
        errors.append(error)
        left -= max(FORWARD * period, LEAST_FORWARD * series.size)
    return _agreed(np.array(found), np.array(errors))


def _agreed(found: Floats, errors: Floats) -> float | None:
    """What the middle of the answers agrees on."""
    if found.size < FEWEST:
        return None
    middle = slice(round(0.2 * found.size), max(round(0.8 * found.size) - 1, round(0.2 * found.size) + 1))
    found, errors = found[middle], errors[middle]
    if np.ptp(found) / found.mean() >= AGREEING:
        return None
    best = found[np.argmin(errors)]
    return float(found[np.abs(found / best - 1) < 0.35].mean())


def _period(series: Floats, longest: float) -> tuple[float | None, float]:
    """The best candidate after a search around it, and its error."""
    candidates = _candidates(series, longest)
    if not candidates.size:
        return None, NEVER
    longest = float(candidates.max())
    errors = [_difference(series, period, longest) for period in candidates]
    best = float(candidates[np.argmin(errors)])
    step = min(max(2 * AROUND * best / TRIALS, 1.0), best)
    around = np.append(np.arange((1 - AROUND) * best, (1 + AROUND) * best, step), best)
    errors = [_difference(series, period, longest) for period in around]
    # Theirs cuts whole samples, too: what is behind the point was never compared.
    return float(int(around[np.argmin(errors)])), float(np.min(errors))


def _candidates(series: Floats, longest: float) -> Floats:
    amplitude = np.abs(np.fft.rfft(series))
    lines, _ = scipy.signal.find_peaks(amplitude)
    period = series.size / np.maximum(lines, 1)
    lines = lines[(period >= SHORTEST) & (period <= longest)]
    if not lines.size:
        return np.empty(0)
    strong = lines[amplitude[lines] > STRONG * amplitude[lines].max()]
    return np.asarray(series.size / strong)


def _difference(series: Floats, period: float, reference: float) -> float:
    """Mean over neighbouring periods of how much their groups differ, in percent of the level.

    Of a period much shorter than ``reference`` the worst of as many as that holds: on a plateau of a
    longer cycle all short ones look alike.
    """
    size = int(period)
    if size < 2 or 2 * size > series.size:
        return NEVER
    rows = series[: series.size // size * size].reshape(-1, size)
    level = rows.mean(axis=1, keepdims=True)
    newer = rows[1:].std(axis=1) > rows[:-1].std(axis=1)
    begins = _groups(np.where(newer[:, np.newaxis], rows[1:], rows[:-1]))
    apart = ((rows - level)[1:] - (rows - level)[:-1]).ravel()
    sums = np.abs(np.add.reduceat(apart, begins))
    each = np.add.reduceat(sums, np.flatnonzero(begins % size == 0)) / size
    each = 100 * each / np.maximum(np.abs(level[1:, 0] + level[:-1, 0]) / 2, 1e-9)
    if reference / period >= MUCH_LONGER:
        each = np.maximum.reduceat(each, np.arange(0, each.size, int(np.ceil(reference / period))))
    return float(each.mean())


def _groups(rows: Floats) -> npt.NDArray[np.int64]:
    """Places in the flattened rows where the runs begin that are near a row's commonest level, or away."""
    count, size = rows.shape
    ordered = np.sort(rows, axis=1)
    levels = ordered[:, [int(share * size) for share in QUANTILES]]
    far = np.abs(rows[:, np.newaxis] - levels[:, :, np.newaxis])
    reach = np.sort(far, axis=2)[:, :, int(DENSE * size)]
    best = np.argmin(reach, axis=1)
    all_rows = np.arange(count)
    near = far[all_rows, best] <= reach[all_rows, best][:, np.newaxis]
    changes = np.diff(near, axis=1, prepend=~near[:, :1]).ravel()
    begins = np.flatnonzero(changes)
    sizes = np.diff(np.append(begins, rows.size))
    return np.asarray(begins[(sizes >= SHORT * size) | (begins % size == 0)])
