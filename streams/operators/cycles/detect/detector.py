"""Tells whether a window of samples holds a cycle: the spectrum proposes, the fold of the periods decides."""

from dataclasses import dataclass

import numpy as np

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats, Ints
from streams.operators.columns.vectors import copy_into, largest, order_of
from streams.operators.cycles.detect.confidence import EVIDENCE, WEIGHTS, chance, weigh
from streams.operators.cycles.detect.fold import fold, phases_of, without_shape
from streams.operators.cycles.detect.period import fitted, fundamental, refined
from streams.operators.cycles.detect.spectrum import (
    ALMOST,
    FEWEST,
    FINE,
    SHORTEST,
    Lines,
    Singles,
    evidence_of,
    highest,
    highest_near,
    noise_of,
    scores,
)

WORTH_FOLDING = -4.0
"""Score below which a peak is not folded."""
CANDIDATES = 3
"""How many peaks of the spectrum are folded."""
MULTIPLES = 6
"""Multiples of a period up to this one are tried."""
FEW_PERIODS = 8
"""A multiple of which the window holds more is a peak of its own if it is the true period."""
FEW_SAMPLES, MANY_PERIODS, ENOUGH_SHARE = 10.0, 6, 0.35
"""A likely period of fewer samples, or of which there are so many, needs no multiple of it, if it gains this
share of what that gains."""
SKIPPED = 3
"""Fractions that are tried: in one series a step may show in each second or third of its periods alone."""
LESS, NEWEST = 0.75, 144
"""A fraction is rougher than this share of its period, unless it is the true one; so many samples tell."""
PLENTY = 0.85
"""A cycle that explains so much needs no rivals."""
ALIKE_SHARE = 0.8
"""Share of the most explained from which a period explains about as much."""
DOUBTED = 0.75
"""A multiple has to explain more than that: in few periods every other one is alike by chance."""
SAME = 0.03
"""Periods that differ by less than this share are one."""
LIKELY = 0.8
"""Confidence from which a cycle counts as one."""
ODDS = 16.0
"""How many times as likely a period is that other series of the same machine have."""
EXPLAINED = 0.8
"""Periods that a cycle explains at least (their number times its share of the variance): two bursts far
apart have lines, too."""
OTHERS = 2
"""At most so many further cycles, and what they need: the main one leaves debris behind."""
OTHER_SCORE = 8.0
OTHER_EXPLAINED = 0.1

CONFUSED, QUICK = 24.0, 1.6
"""A period below the first is a multiple or an alias of one below ``SHORTEST``, if a line of that is so many
times as strong as any other."""

PERIOD, SCORE, PERIODS, SHARE, GAINED, VARIED = COLUMNS = range(6)
"""Columns of a candidate: its period (samples), the score of its peak, and what ``fold`` says of it."""
_TABLE = (CANDIDATES + MULTIPLES - 1, len(COLUMNS))


@dataclass(frozen=True, slots=True)
class FoundCycle:
    """Holds a cycle of ``period`` samples, and the chance (0-1) that it is one."""

    period: float
    confidence: float


def spectra(series: Floats) -> Lines:
    """Return the spectrum of each row up to half the sampling rate; rows are standardised.

    One transform of many rows does the same to each as one of it alone. Half the precision is enough, and
    takes half the memory.
    """
    lines = np.fft.rfft(series.astype(np.float32), FINE * series.shape[1], axis=1)
    return np.asarray(lines, np.complex64)


@kernel
def _is_likely(candidate: Floats, noise: float, period_and_chance: Floats, known: Floats) -> bool:
    """Tell whether that is likely to be a cycle. Period and confidence are written into
    ``period_and_chance``, the evidence into ``known``."""
    weigh(candidate[SCORE], noise, candidate[PERIODS], candidate[SHARE], candidate[VARIED], known)
    period_and_chance[0], period_and_chance[1] = candidate[PERIOD], chance(known, WEIGHTS)
    return bool(period_and_chance[1] >= LIKELY)


@kernel
def _is_multiple(first: float, other: float) -> bool:
    times = first / other
    nearest = np.floor(times + 0.5)
    return bool(nearest >= 2 and abs(times / nearest - 1) < SAME)


@kernel
def _fold(series: Floats, candidate: Floats, phases: int) -> None:
    candidate[PERIODS], candidate[SHARE], candidate[GAINED], candidate[VARIED] = fold(
        series, candidate[PERIOD], phases
    )


@kernel
def _folded(series: Floats, lines: Lines, power: Singles, known: Singles, point: int, score: float) -> Floats:
    """Return the cycle at a ``point`` of the spectrum, folded."""
    candidate, length = np.empty(6), series.size
    place = fundamental(lines, power, known, length, float(point))
    candidate[PERIOD], candidate[SCORE] = min(FINE * length / place, length / 2), score
    _fold(series, candidate, phases_of(candidate[PERIOD]))
    return candidate


@kernel
def _peaks(series: Floats, lines: Lines, power: Singles, known: Singles, tried: Floats) -> int:
    """Fold the highest peaks of the spectrum, highest first, if their periods differ; how many they are."""
    score, count = scores(known, series.size), 0
    for _ in range(CANDIDATES):
        point, height = highest(score)
        if height < WORTH_FOLDING:
            break
        candidate = _folded(series, lines, power, known, point, height)
        is_new = True
        for place in range(count):
            is_new &= not abs(tried[place, PERIOD] - candidate[PERIOD]) <= SAME * candidate[PERIOD]
        if is_new:
            copy_into(tried[count], candidate)
            count += 1
    return count


@kernel
def _shortest(tried: Floats, least: float) -> Floats:
    """Return the shortest period that gains as much as ``least``, with the best score that led to it."""
    chosen = -1
    for place in range(len(tried)):
        if tried[place, GAINED] >= least and (chosen < 0 or tried[place, PERIOD] < tried[chosen, PERIOD]):
            chosen = place
    main: Floats = tried[chosen].copy()
    for place in range(len(tried)):
        candidate = tried[place]
        if abs(candidate[PERIOD] - main[PERIOD]) <= SAME * candidate[PERIOD]:
            main[SCORE] = max(main[SCORE], candidate[SCORE])
    return main


@kernel
def _stands_alone(series: Floats, candidate: Floats, multiples: Floats) -> bool:
    """Tell whether that is likely to be a cycle that needs no multiple of its period, which gain so much.

    Of few samples each period is sampled at another phase, and what is seen often and jitters is alike by
    chance in each other of its periods: that alone lets a multiple gain more.
    """
    if multiples.size == 0:
        return False
    often = candidate[PERIODS] >= MANY_PERIODS or candidate[PERIOD] < FEW_SAMPLES
    if not often or candidate[GAINED] < ENOUGH_SHARE * largest(multiples):
        return False
    period_and_chance, known = np.empty(2), np.empty(EVIDENCE)
    return _is_likely(candidate, noise_of(series), period_and_chance, known)


@kernel
def _roughness(series: Floats, period: float) -> float:
    """Sum squared differences of the samples in the order of their phases (J. Lafler, T. Kinman 1965)."""
    phases = np.arange(series.size) / period
    order = order_of(phases - np.floor(phases))
    before, total = series[order[-1]], 0.0
    for at in order:
        total += (series[at] - before) ** 2
        before = series[at]
    return total


@kernel
def as_sampled(series: Floats, period: float) -> float:
    """Return the true period of what repeats after ``period`` samples: a fraction of it, if that is of few
    samples and its phases follow one another more smoothly. A period of 3.5 samples repeats after 7, as two
    that look different."""
    if not 2 * SHORTEST <= period < SKIPPED * FEW_SAMPLES:
        return period
    newest = series[max(series.size - NEWEST, 0) :]
    least = LESS * _roughness(newest, period)
    for times in range(SKIPPED, 1, -1):
        fraction = period / times
        if SHORTEST <= fraction < FEW_SAMPLES and _roughness(newest, fraction) < least:
            return fraction
    return period


@kernel
def likeliest(series: Floats, lines: Lines, power: Singles, known: Singles) -> Floats:
    """Return the likeliest cycle of a series, whatever its confidence; a period of 0 if there is none.

    Of the highest peaks it is the shortest period that explains about as much as any: a multiple of the
    true period explains as much as it does, a fraction of it less. If that period is too long to be sure
    of, there is none.
    """
    tried = np.zeros(_TABLE)
    peaks = _peaks(series, lines, power, known, tried)
    if peaks == 0:
        return np.zeros(_TABLE[1])
    best, count = 0, peaks
    for place in range(1, peaks):
        best = place if tried[place, GAINED] > tried[best, GAINED] else best
    most = tried[best, GAINED]
    if most <= PLENTY:
        # In few periods a harmonic can stand out more than the whole. The phases of a multiple are as long as
        # those of the period itself, so that only what differs between its repetitions can explain more.
        for times in range(2, MULTIPLES + 1):
            period = tried[best, PERIOD] * times
            if 2 - ALMOST <= series.size / period <= FEW_PERIODS:
                tried[count, PERIOD], tried[count, SCORE] = period, tried[best, SCORE]
                _fold(series, tried[count], phases_of(tried[best, PERIOD]) * times)
                count += 1
        if _stands_alone(series, tried[best], tried[peaks:count, GAINED]):
            count = peaks
    for place in range(peaks, count):
        most = max(most, DOUBTED * tried[place, GAINED])
    main: Floats = _shortest(tried[:count], min(ALIKE_SHARE * most, most))
    if main[PERIOD] * (FEWEST - ALMOST) > series.size:
        main[PERIOD] = 0.0
    return main


@kernel
def _silence(known: Singles, place: float) -> None:
    """Take the lines of the fundamental at ``place``, and a bin on either side, out of the evidence."""
    line = place
    while line - FINE < known.size:
        low, high = int(np.ceil(line - FINE)), int(line + FINE)
        known[max(low, 0) : high + 1] = 0.0
        line += place


@kernel
def _is_multiple_of_quicker(candidate: Floats, power: Singles) -> bool:
    """Tell whether of a short period's lines one that is too quick to be told is the strongest by far."""
    slow, quick, place = 0.0, 0.0, 2 * power.size / candidate[PERIOD]
    line = place
    while line + 0.5 < power.size and candidate[PERIOD] < CONFUSED:
        strength = float(power[int(line + 0.5)])
        if line * SHORTEST > 2 * power.size:
            quick = max(quick, strength)
        else:
            slow = max(slow, strength)
        line += place
    return quick > QUICK * slow


@kernel
def _fold_near(
    series: Floats, lines: Lines, power: Singles, evidence: Singles, period: float, candidate: Floats
) -> bool:
    """Fold a series at what its spectrum has near ``period``, into ``candidate``; tell whether that stands
    out."""
    expected = FINE * series.size / period
    candidate[SCORE], top = highest_near(evidence, expected, SAME * expected)
    if candidate[SCORE] < 0:
        return False
    candidate[PERIOD] = FINE * series.size / refined(lines, float(top))
    if abs(candidate[PERIOD] / period - 1) > SAME or _is_multiple_of_quicker(candidate, power):
        return False
    _fold(series, candidate, phases_of(candidate[PERIOD]))
    return True


@kernel
def _recognised(
    series: Floats,
    lines: Lines,
    power: Singles,
    evidence: Singles,
    periods: Floats,
    period_and_chance: Floats,
) -> int:
    """Write the likeliest of the ``periods`` that other series have into
    ``period_and_chance``, if this one has it, too; return how many that are. It was not looked for among
    many, so less evidence is enough. Of a multiple of its own period that is the cycle, by its own
    evidence."""
    candidate, best, other, gained = np.empty(6), np.zeros(2), np.empty(EVIDENCE), np.zeros(1)
    for period in periods:
        if not _fold_near(series, lines, power, evidence, period, candidate):
            continue
        _is_likely(candidate, noise_of(series), period_and_chance, other)
        if candidate[SHARE] * candidate[PERIODS] >= EXPLAINED and period_and_chance[1] > best[1]:
            copy_into(best, period_and_chance)
            gained[0] = candidate[GAINED]
    for times in range(SKIPPED, 1, -1):
        fraction = best[0] / times
        if (
            fraction >= SHORTEST
            and _fold_near(series, lines, power, evidence, fraction, candidate)
            and _stands_alone(series, candidate, gained)
        ):
            _is_likely(candidate, noise_of(series), period_and_chance, other)
            return 1
    period_and_chance[0], period_and_chance[1] = best[0], ODDS * best[1] / (1 + (ODDS - 1) * best[1])
    return 1 if period_and_chance[1] >= LIKELY else 0


@kernel
def judge(series: Floats, lines: Lines, periods: Floats, cycles: Floats, known: Floats) -> int:
    """Write periods and confidences of a standardised ``series``' cycles into ``cycles``; return how many.

    Of the main one both, and its evidence into ``known``, however unlikely; a period of 0 if no peak of the
    spectrum is worth folding. ``periods``: those of other series, see ``_recognised``.
    """
    cycles[0] = 0.0
    if not series.any():
        return 0
    lines = lines[: FINE * (series.size // 2)]
    power, evidence = evidence_of(lines, series.size)
    candidate = likeliest(series, lines, power, evidence)
    noise = noise_of(series) if candidate[PERIOD] > 0 else 0.0
    likely = candidate[PERIOD] > 0 and _is_likely(candidate, noise, cycles[0], known)
    if not likely or candidate[SHARE] * candidate[PERIODS] < EXPLAINED:
        return _recognised(series, lines, power, evidence, periods, cycles[0]) if periods.size else 0
    too_quick = _is_multiple_of_quicker(candidate, power)
    if not too_quick:
        candidate[PERIOD] = fitted(lines, series.size, candidate[PERIOD])
    cycles[0, 0] = as_sampled(series, candidate[PERIOD])
    other, count = np.empty(EVIDENCE), 1
    for _ in range(OTHERS):
        series = without_shape(series, cycles[count - 1, 0])
        _silence(evidence, FINE * series.size / cycles[count - 1, 0])
        point, score = highest(scores(evidence, series.size))
        if score < OTHER_SCORE:
            break
        candidate = _folded(series, lines, power, evidence, point, score)
        if candidate[SHARE] < OTHER_EXPLAINED or not _is_likely(candidate, noise, cycles[count], other):
            break
        count += 1
    if too_quick:
        for further in range(1, len(cycles)):
            copy_into(cycles[further - 1], cycles[further])
        return count - 1
    # A further cycle that is half, a third … of another further one is a harmonic of that.
    if count == 3 and _is_multiple(cycles[2, 0], cycles[1, 0]):
        copy_into(cycles[1], cycles[2])
        return 2
    return 2 if count == 3 and _is_multiple(cycles[1, 0], cycles[2, 0]) else count


@entry(
    "int64[::1](float64[:, ::1], complex64[:, ::1], int64[::1], float64[::1], float64[:, :, ::1],"
    " float64[:, ::1])"
)
def judge_each(
    series: Floats, lines: Lines, rows: Ints, periods: Floats, cycles: Floats, known: Floats
) -> Ints:  # fmt: skip
    """Judge each of the ``series``, whose length is a multiple of 4, into ``rows`` of ``cycles`` and
    ``known``; return how many cycles there are of each."""
    counts = np.empty(len(series), np.int64)
    for at in range(len(series)):
        counts[at] = judge(series[at], lines[at], periods, cycles[rows[at]], known[rows[at]])
    return counts
