"""Whether windows of samples hold a cycle: the spectrum proposes, the fold of the periods decides.

How likely a cycle is real follows from both by a logistic regression. Its weights are fitted by
``bench/fit_cycle.py`` to windows of 76 to 600 samples; of the periods that are judged there nine in ten are
right. Where cycles are rarer, so is being right with a low confidence.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streams.operators.columns.arrays import Floats, Ints
from streams.operators.cycles.detect.fold import fold, phases_of, without_shape
from streams.operators.cycles.detect.period import fundamentals
from streams.operators.cycles.detect.spectrum import (
    ALMOST,
    FEWEST,
    FINE,
    FLAT,
    Singles,
    Spectra,
    highest_peaks,
    scores,
    spectra,
)

WORTH_FOLDING = -4.0
"""Score below which a peak is not folded."""
CANDIDATES = 3
"""How many peaks of the spectrum are folded."""
MULTIPLES = np.array([2, 3, 4, 5, 6])
FEW_PERIODS = 8
"""A multiple of which the window holds more is a peak of its own if it is the true period."""
PLENTY = 0.85
"""A cycle that explains so much needs no rivals."""
ALIKE = 0.8
"""Share of the most explained from which a period explains about as much."""
DOUBTED = 0.75
"""A multiple has to explain more than that: in few periods every other one is alike by chance."""
SAME = 0.03
"""Periods that differ by less than this share are one."""
LIKELY = 0.8
"""Confidence from which a cycle counts as one."""
EXPLAINED = 0.8
"""Periods that a cycle explains at least (their number times its share of the variance): two bursts far
apart have lines, too."""
OTHERS = 2
"""At most so many further cycles, and what they need: the main one leaves debris behind."""
OTHER_SCORE = 8.0
OTHER_EXPLAINED = 0.2
WEIGHTS = (7.683, 2.696, -3.447, -6.068, 1.922, -2.551)
"""Of the columns of ``Candidates.evidence``."""
ENOUGH = 30.0
"""A score above this says no more than this."""
LITTLE = 0.05
"""Fewer periods explained than this say no less than this."""


@dataclass(frozen=True, slots=True)
class FoundCycle:
    """A cycle of ``period`` samples, and the chance (0-1) that it is one."""

    period: float
    confidence: float


class Candidates(NamedTuple):
    """Periods (samples) that were folded, each in the series of its row; arrays of one shape.

    ``score`` is that of the peak in the spectrum, ``noise`` the variance of the series' noise, the others are
    those of ``fold.Folds``.
    """

    rows: Ints
    period: Floats
    score: Floats
    noise: Floats
    periods: Ints
    explained: Floats
    gained: Floats
    varied: Floats

    @property
    def evidence(self) -> Floats:
        """What speaks for each cycle, shape (cycles, 6): one, and figures of about -3 to 5.

        What is neither noise nor explained speaks against a cycle: bursts at odd distances have lines and
        hardly any noise, but no shape that they share.
        """
        other = 1 - self.explained - self.noise / np.maximum(self.varied, LITTLE)
        parts = (
            np.ones(self.score.size),
            np.clip(self.score, -20.0, ENOUGH) / 10,
            np.maximum(self.explained, -0.5),
            np.clip(other, 0.0, 1.5),
            np.log(np.maximum(self.explained * self.periods, LITTLE)),
            np.log(self.periods),
        )
        return np.stack(parts, axis=1)

    @property
    def confidence(self) -> Floats:
        """The chance (0-1) that each is the period of a real cycle."""
        return np.asarray(1 / (1 + np.exp(-(self.evidence * WEIGHTS).sum(axis=1))))

    def part(self, chosen: Ints) -> "Candidates":
        """Those at the places ``chosen``."""
        return Candidates._make(one[chosen] for one in self)


def detect(samples: Floats, flat: float = FLAT) -> list[tuple[FoundCycle, ...]]:
    """The cycles of each row of ``samples`` (series, length), the main one first; none if it has none.

    The length is a multiple of 4. Nothing in a row may be NaN. ``flat`` is that of ``spectra``.
    """
    found = spectra(samples, flat)
    main = likeliest(found)
    main = main.part(
        np.flatnonzero((main.confidence >= LIKELY) & (main.explained * main.periods >= EXPLAINED))
    )
    cycles: list[tuple[FoundCycle, ...]] = [()] * len(samples)
    if not main.rows.size:
        return cycles
    for row, cycle in _named(main):
        cycles[row] = (cycle,)
    for row, cycle in _others(found, main):
        cycles[row] += (cycle,)
    return [_without_fractions(one) for one in cycles]


def _without_fractions(found: tuple[FoundCycle, ...]) -> tuple[FoundCycle, ...]:
    """A further cycle that is half, a third … of another further one is a harmonic of that."""
    main, others = found[:1], found[1:]
    return main + tuple(one for one in others if not any(_is_multiple(other, one) for other in others))


def _is_multiple(one: FoundCycle, other: FoundCycle) -> bool:
    times = one.period / other.period
    return round(times) >= 2 and abs(times / round(times) - 1) < SAME


def _named(candidates: Candidates) -> list[tuple[int, FoundCycle]]:
    pairs = zip(candidates.period.tolist(), candidates.confidence.tolist(), strict=True)
    return list(zip(candidates.rows.tolist(), (FoundCycle(*pair) for pair in pairs), strict=True))


def likeliest(found: Spectra) -> Candidates:
    """The likeliest cycle of each series that has a peak worth folding, whatever its confidence.

    Of the highest peaks it is the shortest period that explains about as much as any: a multiple of the
    true period explains as much as it does, a fraction of it less. If that period is too long to be sure
    of, there is none.
    """
    length = found.series.shape[1]
    tops = highest_peaks(scores(found.evidence, length), CANDIDATES, WORTH_FOLDING)
    folded = _folded(found, found.series, *tops)
    multiples = _multiples(found.series, folded.part(_per_row(folded, -folded.gained)))
    most = np.full(len(found.series), -np.inf)
    np.maximum.at(most, folded.rows, folded.gained)
    np.maximum.at(most, multiples.rows, DOUBTED * multiples.gained)
    folded = Candidates._make(map(np.concatenate, zip(folded, multiples, strict=True)))
    alike = np.flatnonzero(folded.gained >= np.minimum(ALIKE * most, most)[folded.rows])
    shortest = folded.part(alike)
    shortest = _with_best_score(shortest.part(_per_row(shortest, shortest.period)), folded)
    return shortest.part(np.flatnonzero(shortest.period * (FEWEST - ALMOST) <= length))


def _with_best_score(chosen: Candidates, folded: Candidates) -> Candidates:
    """``chosen`` (at most one of a series) with the highest score of all peaks that led to its period."""
    period = np.full(folded.rows.max(initial=-1) + 1, np.nan)
    period[chosen.rows] = chosen.period
    same = np.abs(folded.period - period[folded.rows]) <= SAME * folded.period
    score = np.full(period.size, -np.inf)
    np.maximum.at(score, folded.rows[same], folded.score[same])
    return chosen._replace(score=score[chosen.rows])


def _per_row(candidates: Candidates, least: Floats) -> Ints:
    """For each series that occurs, the place of the one with the smallest ``least``."""
    order = np.lexsort((least, candidates.rows))
    first = np.diff(candidates.rows[order], prepend=-1) > 0
    return np.asarray(order[first])


def _folded(found: Spectra, series: Floats, rows: Ints, points: Ints, score: Floats) -> Candidates:
    """The cycles at ``points`` of the spectra (highest first), folded in ``series``."""
    length = series.shape[1]
    period = FINE * length / fundamentals(found, rows, points.astype(np.float64))
    period = np.minimum(period, length / 2)
    new = _new(rows, period, len(series))
    rows, period, score = rows[new], period[new], score[new]
    return Candidates(rows, period, score, found.noise[rows], *fold(series[rows], period, phases_of(period)))


def _new(rows: Ints, period: Floats, count: int) -> Ints:
    """The places of the periods that are not, in the same one of ``count`` rows, like one before them."""
    seen = np.full((count, CANDIDATES), np.inf)
    rank = np.zeros(count, np.int64)
    kept = []
    for first in np.split(np.arange(rows.size), np.flatnonzero(np.diff(rows) <= 0) + 1):
        row, one = rows[first], period[first, np.newaxis]
        new = (np.abs(seen[row] - one) > SAME * one).all(axis=1)
        seen[row[new], rank[row[new]]] = one[new, 0]
        rank[row[new]] += 1
        kept.append(first[new])
    return np.concatenate(kept)


def _multiples(series: Floats, candidates: Candidates) -> Candidates:
    """Multiples of the periods: in few periods a harmonic can stand out more than the whole.

    The phases are as long as those of the period itself, so that only what differs between its
    repetitions can explain more.
    """
    tried = candidates.part(np.flatnonzero(candidates.gained <= PLENTY))
    period = tried.period[:, np.newaxis] * MULTIPLES
    periods = series.shape[1] / period
    place, times = np.nonzero((periods >= 2 - ALMOST) & (periods <= FEW_PERIODS))
    phases = phases_of(tried.period)[place] * MULTIPLES[times]
    period, rows = period[place, times], tried.rows[place]
    return Candidates(
        rows, period, tried.score[place], tried.noise[place], *fold(series[rows], period, phases)
    )


def _others(found: Spectra, known: Candidates) -> list[tuple[int, FoundCycle]]:
    """Cycles beside the known ones, in what those leave of the series and of the spectra, whose evidence
    is used up."""
    evidence, rest = found.evidence, found.series.copy()
    accepted: list[tuple[int, FoundCycle]] = []
    for _ in range(OTHERS):
        rest[known.rows] = without_shape(rest[known.rows], known.period)
        _silence(evidence, known.rows, FINE * rest.shape[1] / known.period)
        rows, points, score = highest_peaks(scores(evidence[known.rows], rest.shape[1]), 1, OTHER_SCORE)
        if not rows.size:
            break
        known = _folded(found, rest, known.rows[rows], points, score)
        enough = (known.confidence >= LIKELY) & (known.explained >= OTHER_EXPLAINED)
        known = known.part(np.flatnonzero(enough))
        accepted += _named(known)
    return accepted


def _silence(evidence: Singles, rows: Ints, places: Floats) -> None:
    """Take the lines of the fundamentals at ``places``, and a bin on either side, out of the evidence."""
    point = np.arange(evidence.shape[1])
    nearest = np.maximum(np.rint(point / places[:, np.newaxis]), 1) * places[:, np.newaxis]
    evidence[rows] = np.where(np.abs(point - nearest) <= FINE, np.float32(0), evidence[rows])
