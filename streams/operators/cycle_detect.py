"""Whether windows of samples hold a rhythm: the spectrum proposes, the fold of the periods decides."""

from dataclasses import dataclass

import numpy as np

from streams.operators.bank_state import Floats
from streams.operators.cycle_fold import Fold, fold, without_shape
from streams.operators.cycle_period import fundamental
from streams.operators.cycle_spectrum import FINE, HARMONICS, Spectra, spectra, strongest

WORTH_FOLDING = -3.0
"""Score below which a peak is not looked at any further."""
LIKELY = 0.5
"""Confidence from which a rhythm counts as one."""
OTHERS = 2
"""At most so many further rhythms, and what they need: the main one leaves debris behind."""
OTHER_SCORE = 8.0
OTHER_EXPLAINED = 0.2


@dataclass(frozen=True, slots=True)
class Rhythm:
    """A rhythm of ``period`` samples, and the chance (0-1) that it is one."""

    period: float
    confidence: float
    score: float
    fold: Fold


def rhythms(samples: Floats) -> list[tuple[Rhythm, ...]]:
    """The rhythms of each row of ``samples`` (series, length), the main one first; none if it has none.

    The length is a multiple of 4. Nothing in a row may be NaN.
    """
    found = spectra(samples)
    peaks = strongest(found.evidence, samples.shape[1])
    rows = enumerate(zip(peaks.point.tolist(), peaks.score.tolist(), strict=True))
    return [
        _of_row(found, row, point, score) if score > WORTH_FOLDING else () for row, (point, score) in rows
    ]


def _of_row(found: Spectra, row: int, point: int, score: float) -> tuple[Rhythm, ...]:
    main = _judged(found, row, point, score, found.series[row])
    if main.confidence < LIKELY:
        return ()
    return main, *_others(found, row, main)


def _others(found: Spectra, row: int, main: Rhythm) -> list[Rhythm]:
    """Rhythms beside the main one, in what it leaves of the series and of the spectrum."""
    evidence, rest = found.evidence[row : row + 1].copy(), found.series[row]
    accepted: list[Rhythm] = []
    known = main
    while len(accepted) < OTHERS:
        rest = without_shape(rest, known.period)
        _silence(evidence[0], FINE * rest.size / known.period)
        peak = strongest(evidence, rest.size)
        if peak.score[0] < OTHER_SCORE:
            break
        known = _judged(found, row, int(peak.point[0]), float(peak.score[0]), rest)
        if known.confidence < LIKELY or known.fold.explained < OTHER_EXPLAINED:
            break
        accepted.append(known)
    return accepted


def _judged(found: Spectra, row: int, point: int, score: float, series: Floats) -> Rhythm:
    """The rhythm at ``point`` of the spectrum, folded in ``series``."""
    place = fundamental(found.lines[row], found.evidence[row], series.size, point)
    period = min(FINE * series.size / place, series.size / 2)
    folded = fold(series, period)
    return Rhythm(period, confidence(score, folded), score, folded)


def _silence(evidence: Floats, place: float) -> None:
    """Take the lines of the fundamental at ``place``, and a bin on either side, out of the evidence."""
    for harmonic in range(1, 4 * HARMONICS + 1):
        centre = round(harmonic * place)
        evidence[max(centre - FINE, 0) : centre + FINE + 1] = 0.0


def confidence(score: float, folded: Fold) -> float:
    """The chance that a peak with this score and fold is the period of a real rhythm, 0-1."""
    if score <= 0 or folded.explained < 0.12 or folded.median < 0.5:
        return 0.0
    return float(1 - np.exp(-(score + 3) / 3))
