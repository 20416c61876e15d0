"""From peaks of the spectrum to exact fundamental periods, for many peaks at once.

A peak is named by its series (a row of the spectra) and its place (in points of the spectrum, fractions
allowed); functions take one array of each, shape (peaks,).
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from streams.operators.columns.arrays import Bools, Floats, Ints
from streams.operators.cycles.detect.spectrum import (
    ALMOST,
    BY_CHANCE,
    FEWEST,
    FINE,
    HARMONICS,
    SHORTEST,
    Spectra,
)

FACTORS = (2, 3, 5)
PRESENT = 8.0
"""Evidence of a line that is there beyond doubt."""
SHARE = 0.02
"""A line with less than this share of the strongest one's power adds nothing to the shape."""
LOUD = 0.25
"""Lines between the multiples with more than this share of their power are there, too."""
ALIKE = 0.25
"""Lines of at least this share of the power of those beside them belong to one shape with them."""
WIDEST = 1.5
"""How many points off its expected place the top of a harmonic may be."""
TINY = 1e-300

_HARMONIC = np.arange(1, HARMONICS + 1)
_BESIDE = np.array([-1, 0, 1])[:, np.newaxis]


def fundamentals(found: Spectra, rows: Ints, places: Floats) -> Floats:
    """The exact places of the fundamentals near ``places``.

    At a multiple of a place if only the lines of that are there, and at a fraction of it if there are
    lines as strong between its own: all lines of a short burst in a long rest are alike.
    """
    places = refined(found.lines, rows, places)
    factor = _searched(found, rows, places, _only_multiples, 1)
    factor = factor * _searched(found, rows, places * factor, _more_between, -1)
    moved = np.flatnonzero(factor != 1)
    if moved.size:
        places[moved] = refined(found.lines, rows[moved], places[moved] * factor[moved])
    return places


def refined(lines: npt.NDArray[np.complex64], rows: Ints, places: Floats) -> Floats:
    """The fundamentals near ``places`` that fit the peaks of their harmonics best.

    Each peak is the top of a parabola through the logarithms of three points of the Hann-windowed
    spectrum. The k-th harmonic fixes the fundamental k times as sharply, and the better the stronger it
    is, so it has the weight k^2 times its power.
    """
    for _ in range(2):
        centre = np.rint(places[:, np.newaxis] * _HARMONIC).astype(np.int64)
        usable = (centre > FINE) & (centre + FINE + 1 < lines.shape[1])
        near = np.where(usable, centre, FINE + 1)[:, np.newaxis, :] + _BESIDE
        power = _windowed(lines, rows[:, np.newaxis, np.newaxis], near)
        logs = np.log(power + TINY)
        bend = logs[:, 0] - 2 * logs[:, 1] + logs[:, 2]
        top = 0.5 * (logs[:, 0] - logs[:, 2]) / np.where(bend < 0, bend, -1.0)
        sound = usable & (bend < 0) & (np.abs(top) < WIDEST)
        weight = np.where(sound, _HARMONIC**2 * power[:, 1], 0.0)
        total = weight.sum(axis=1)
        mean = (weight * (centre + top) / _HARMONIC).sum(axis=1) / np.where(total > 0, total, 1.0)
        places = np.where(total > 0, mean, places)
    return places


def _windowed(lines: npt.NDArray[np.complex64], rows: Ints, points: Ints) -> Floats:
    """Power with Hann's window, which is a sum of three neighbouring bins of the spectrum without one."""
    sides = lines[rows, points - FINE] + lines[rows, points + FINE]
    line = 0.5 * lines[rows, points] - 0.25 * sides
    return np.asarray(line.real**2 + line.imag**2, np.float64)


def _searched(
    found: Spectra,
    rows: Ints,
    places: Floats,
    test: Callable[[Spectra, Ints, Floats, int], Bools],
    power: int,
) -> Floats:
    """The product of the ``FACTORS`` (to the ``power`` 1 or -1) by which the ``test`` moves each place."""
    moves = np.ones(places.size)
    open_ = np.arange(places.size)
    while open_.size:
        moved = np.zeros(open_.size, np.bool_)
        for factor in FACTORS:
            holds = test(found, rows[open_], places[open_] * moves[open_], factor) & ~moved
            moves[open_[holds]] *= float(factor) ** power
            moved |= holds
        open_ = open_[moved]
    return moves


def _only_multiples(found: Spectra, rows: Ints, places: Floats, factor: int) -> Bools:
    """Whether of the lines of the fundamentals at ``places`` only each ``factor``-th is there."""
    power, evidence = _lines(found, rows, places)
    multiple = _HARMONIC % factor == 0
    # In a short window even a strong line cannot stand out much from so few surroundings.
    loud = power[:, ~multiple].sum(axis=1) > LOUD * power[:, multiple].sum(axis=1)
    short = places * factor > FINE * found.series.shape[1] / SHORTEST
    sure = (evidence[:, multiple] > PRESENT).any(axis=1)
    return np.asarray(sure & ~loud & ~short & ~_stand_out(power, evidence, ~multiple))


def _more_between(found: Spectra, rows: Ints, places: Floats, factor: int) -> Bools:
    """Whether ``factor`` times as long a period has lines as strong between those at ``places``."""
    lower = places / factor
    power, evidence = _lines(found, rows, lower)
    multiple = _HARMONIC % factor == 0
    loud = power[:, ~multiple].mean(axis=1) > ALIKE * power[:, multiple].mean(axis=1)
    enough = lower >= FINE * (FEWEST - ALMOST)
    return np.asarray(loud & enough & _stand_out(power, evidence, ~multiple))


def _lines(found: Spectra, rows: Ints, places: Floats) -> tuple[Floats, Floats]:
    """Power and evidence of the lines of the fundamentals at ``places``, shape (places, HARMONICS)."""
    last = found.evidence.shape[1] - 1
    points = np.rint(places[:, np.newaxis] * _HARMONIC).astype(np.int64)
    inside = points <= last
    points = np.minimum(points, last)
    line = found.lines[rows[:, np.newaxis], points]
    power = np.where(inside, line.real**2 + line.imag**2, 0.0)
    return power, np.where(inside, found.evidence[rows[:, np.newaxis], points], 0.0)


def _stand_out(power: Floats, evidence: Floats, which: Bools) -> Bools:
    """Whether the lines ``which`` together stand out by more than chance, as far as they matter."""
    relevant = power > SHARE * power.max(axis=1, keepdims=True)
    total = np.where(relevant, evidence, 0.0)[:, which].cumsum(axis=1)
    return np.asarray((total > BY_CHANCE[: total.shape[1]]).any(axis=1))
