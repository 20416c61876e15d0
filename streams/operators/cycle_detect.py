"""Whether windows of samples hold a rhythm: the spectrum proposes, the fold of the periods decides."""

from dataclasses import dataclass

from streams.operators.bank_state import Floats
from streams.operators.cycle_confidence import confidence
from streams.operators.cycle_fold import ALMOST, Fold, fold, phases_of, without_shape
from streams.operators.cycle_period import fundamental
from streams.operators.cycle_spectrum import FEWEST, FINE, HARMONICS, Spectra, peaks, scores, spectra

WORTH_FOLDING = -4.0
"""Score below which a peak is not looked at any further."""
CANDIDATES = 3
"""How many peaks of the spectrum are folded."""
MULTIPLES = (2, 3, 4, 5, 6)
PLENTY = 0.85
"""A rhythm that explains so much needs no rivals."""
ALIKE = 0.8
"""Share of the most explained from which a period explains about as much."""
LIKELY = 0.8
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
    score = scores(found.evidence, samples.shape[1])
    worth = score.max(axis=1) > WORTH_FOLDING
    return [_of_row(found, row, score[row]) if worth[row] else () for row in range(len(samples))]


def _of_row(found: Spectra, row: int, score: Floats) -> tuple[Rhythm, ...]:
    main = best(found, row, score)
    if main is None or main.confidence < LIKELY:
        return ()
    return main, *_others(found, row, main)


def best(found: Spectra, row: int, score: Floats) -> Rhythm | None:
    """The rhythm that the series of that row has most likely, whatever its confidence.

    Of the highest peaks it is the shortest period that explains about as much as any: a multiple of the
    true period explains as much as it does, a fraction of it less.
    """
    looked: list[Rhythm] = []
    for point, height in peaks(score, CANDIDATES, WORTH_FOLDING):
        looked.append(_judged(found, row, point, height, found.series[row]))
        if looked[-1].fold.explained > PLENTY:
            break
    if not looked:
        return None
    first = max(looked, key=lambda rhythm: rhythm.fold.explained)
    if first.fold.explained <= PLENTY:
        looked += _multiples(found, row, first)
    enough = ALIKE * max(rhythm.fold.explained for rhythm in looked)
    return min(
        (r for r in looked if r.fold.explained >= enough), key=lambda rhythm: rhythm.period, default=None
    )


def _multiples(found: Spectra, row: int, rhythm: Rhythm) -> list[Rhythm]:
    """Rhythms of multiples of the period: in few periods a harmonic can stand out more than the whole."""
    series = found.series[row]
    longest = series.size / FEWEST * (1 + ALMOST / FEWEST)
    phases = phases_of(rhythm.period)
    return [
        _folded(series, rhythm.period * multiple, rhythm.score, phases * multiple)
        for multiple in MULTIPLES
        if rhythm.period * multiple <= longest
    ]


def _others(found: Spectra, row: int, main: Rhythm) -> list[Rhythm]:
    """Rhythms beside the main one, in what it leaves of the series and of the spectrum."""
    evidence, rest = found.evidence[row : row + 1].copy(), found.series[row]
    accepted: list[Rhythm] = []
    known = main
    while len(accepted) < OTHERS:
        rest = without_shape(rest, known.period)
        _silence(evidence[0], FINE * rest.size / known.period)
        peak = peaks(scores(evidence, rest.size)[0], 1, OTHER_SCORE)
        if not peak:
            break
        known = _judged(found, row, *peak[0], rest)
        if known.confidence < LIKELY or known.fold.explained < OTHER_EXPLAINED:
            break
        accepted.append(known)
    return accepted


def _judged(found: Spectra, row: int, point: int, score: float, series: Floats) -> Rhythm:
    """The rhythm at ``point`` of the spectrum, folded in ``series``."""
    place = fundamental(found.lines[row], found.evidence[row], series.size, point)
    period = FINE * series.size / place
    return _folded(series, period, score, phases_of(period))


def _folded(series: Floats, period: float, score: float, phases: int) -> Rhythm:
    folded = fold(series, min(period, series.size / 2), phases)
    return Rhythm(period, confidence(score, folded), score, folded)


def _silence(evidence: Floats, place: float) -> None:
    """Take the lines of the fundamental at ``place``, and a bin on either side, out of the evidence."""
    for harmonic in range(1, 4 * HARMONICS + 1):
        centre = round(harmonic * place)
        evidence[max(centre - FINE, 0) : centre + FINE + 1] = 0.0
