"""Finds the exact fundamental period from a peak of the spectrum.

A place is counted in points of the spectrum, fractions allowed.
"""

import numpy as np

from streams.compiled import kernel
from streams.operators.columns.vectors import largest
from streams.operators.cycles.detect.spectrum import (
    ALMOST,
    BY_CHANCE,
    FEWEST,
    FINE,
    HARMONICS,
    SHORTEST,
    Lines,
    Singles,
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
TINY = 1e-300  # the logarithm of no power at all stays finite
FITTED, ENOUGH = 4, 4.5
"""Harmonics that fix the exact period, and periods that it takes."""
ASTRAY = 4.0
"""How many points off the exact period may be."""
COARSE, FINER = 0.5, 16
"""It is looked for in steps of so many points, and then in so many times finer ones."""


@kernel
def fundamental(lines: Lines, power: Singles, evidence: Singles, length: int, place: float) -> float:
    """Return the exact place of the fundamental near ``place``, in a series of ``length`` samples.

    At a multiple of it if only the lines of that are there, and at a fraction of it if there are
    lines as strong between its own: all lines of a short burst in a long rest are alike.
    """
    place = refined(lines, place)
    factor, moves = 1.0, True
    while moves:
        moves = False
        for times in FACTORS:
            if not moves and place * factor * times <= FINE * length / SHORTEST:
                strength, between, sure, stand_out = _lines(power, evidence, place * factor, times)
                # In a short window even a strong line cannot stand out much from so few surroundings.
                if sure and between <= LOUD * strength and not stand_out:
                    factor, moves = factor * times, True
    moves = True
    while moves:
        moves = False
        for times in FACTORS:
            if not moves and place * factor / times >= FINE * (FEWEST - ALMOST):
                strength, between, _, stand_out = _lines(power, evidence, place * factor / times, times)
                multiples = HARMONICS // times
                loud = between / (HARMONICS - multiples) > ALIKE * strength / multiples
                if loud and stand_out:
                    factor, moves = factor / times, True
    return refined(lines, place * factor) if factor != 1 else place


@kernel
def refined(lines: Lines, place: float) -> float:
    """Return the fundamental near ``place`` that fits the peaks of its harmonics best.

    Each peak is the top of a parabola through the logarithms of three points of the Hann-windowed
    spectrum. The k-th harmonic fixes the fundamental k times as sharply, and the better the stronger it
    is, so it has the weight k^2 times its power.
    """
    for _ in range(2):
        total, mean = 0.0, 0.0
        for harmonic in range(1, HARMONICS + 1):
            centre = int(place * harmonic + 0.5)
            if centre <= FINE or centre + FINE + 1 >= lines.size:
                continue
            before, at, after = (
                _windowed(lines, centre - 1),
                _windowed(lines, centre),
                _windowed(lines, centre + 1),
            )
            lower, higher = np.log(before + TINY), np.log(after + TINY)
            bend = lower - 2 * np.log(at + TINY) + higher
            top = 0.5 * (lower - higher) / (bend if bend < 0 else -1.0)
            if bend < 0 and abs(top) < WIDEST:
                total += harmonic**2 * at
                mean += harmonic * at * (centre + top)
        if total > 0:
            place = mean / total
    return place


@kernel
def _windowed(lines: Lines, point: int) -> float:
    """Return the power with Hann's window, which is a sum of three neighbouring bins of the spectrum without
    one."""
    low, at, high = lines[point - FINE], lines[point], lines[point + FINE]
    real = 0.5 * at.real - 0.25 * (low.real + high.real)
    imaginary = 0.5 * at.imag - 0.25 * (low.imag + high.imag)
    return float(real * real + imaginary * imaginary)


@kernel
def fitted(lines: Lines, length: int, period: float) -> float:
    """Return the ``period`` (samples) of a series of ``length`` samples, as exactly as they tell.

    It is that near it whose harmonics have the most power together, without a window: the least-squares fit
    of a periodic shape in white noise (B. G. Quinn, P. J. Thomson 1991). Hann's window gives the ends of
    the series no weight, and they fix the period best. Of few periods there are too few lines for that.
    """
    place = FINE * length / period
    if place < FINE * ENOUGH:
        return period
    count = 1
    while count < FITTED and (count + 1) * (place + ASTRAY) + 1 < lines.size:
        count += 1
    step, reach = COARSE, ASTRAY
    for _ in range(2):
        most, middle = -1.0, place
        for at in range(int(2 * reach / step) + 1):
            total, here = 0.0, middle - reach + at * step
            for harmonic in range(1, count + 1):
                total += _power_at(lines, harmonic * here)
            if total > most:
                most, place = total, here
        step, reach = step / FINER, step
    return FINE * length / place


@kernel
def _power_at(lines: Lines, place: float) -> float:
    """Return the power between two points of the spectrum: that of the parabola through the three around
    it."""
    point = int(place + 0.5)
    if point + 1 >= lines.size:
        return 0.0
    before, at, after = lines[point - 1], lines[point], lines[point + 1]
    lower = before.real * before.real + before.imag * before.imag
    power = at.real * at.real + at.imag * at.imag
    higher = after.real * after.real + after.imag * after.imag
    off = place - point
    return float(power + off * (higher - lower + off * (higher - 2 * power + lower)) / 2)


@kernel
def _lines(power: Singles, evidence: Singles, place: float, factor: int) -> tuple[float, float, bool, bool]:
    """Return of the lines of the fundamental at ``place`` the power of each ``factor``-th, and that of those
    between; whether one of the former is there beyond doubt; and whether the latter together stand out by
    more than chance, as far as they matter."""
    strength, known = np.zeros(HARMONICS), np.zeros(HARMONICS)
    for line in range(HARMONICS):
        point = int(place * (line + 1) + 0.5)
        if point < power.size:
            strength[line], known[line] = power[point], evidence[point]
    least = SHARE * largest(strength)
    multiples, between, total, count = 0.0, 0.0, 0.0, 0
    sure = stand_out = False
    for line in range(HARMONICS):
        if (line + 1) % factor == 0:
            multiples += strength[line]
            sure = sure or known[line] > PRESENT
        else:
            between += strength[line]
            if strength[line] > least:
                total += known[line]
            stand_out = stand_out or total > BY_CHANCE[count]
            count += 1
    return multiples, between, sure, stand_out
