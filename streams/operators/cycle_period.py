"""From a peak of the spectrum to the exact fundamental period."""

import numpy as np
import numpy.typing as npt

from streams.operators.bank_state import Floats
from streams.operators.cycle_spectrum import FINE, HARMONICS, SHORTEST

DIVISORS = (2, 3, 5)
BY_CHANCE = (13.8, 16.7, 19.1, 21.4, 23.4, 25.4, 27.3, 29.2)
"""What the evidence of 1, 2, … lines exceeds by chance once in a million: quantiles of Gamma(h, 1)."""
PRESENT = 8.0
"""Evidence of a line that is there beyond doubt."""
SHARE = 0.02
"""A line with less than this share of the strongest one's power adds nothing to the shape."""


def fundamental(lines: npt.NDArray[np.complex128], evidence: Floats, length: int, point: int) -> float:
    """The fundamental's place in points, near ``point`` or, if only its multiples are there, at one."""
    place = refined(lines, float(point))
    power = np.abs(lines) ** 2
    multiple = _multiple(power, evidence, place, FINE * length / SHORTEST)
    return place if multiple == 1 else refined(lines, place * multiple)


def refined(lines: npt.NDArray[np.complex128], place: float) -> float:
    """The fundamental near ``place`` that fits the peaks of its harmonics best.

    Each peak is the top of a parabola through the logarithms of three points of the Hann-windowed
    spectrum. The k-th harmonic tells the fundamental k times as sharply, and the better the stronger it
    is, so it has the weight k^2 times its power.
    """
    for _ in range(2):
        centre = np.rint(np.arange(1, HARMONICS + 1) * place).astype(np.int64)
        centre = centre[(centre > FINE) & (centre + FINE + 1 < lines.size)]
        near = centre + np.array([[-1], [0], [1]])
        # Hann's window is a sum of three neighbouring bins of the spectrum without a window.
        windowed = np.abs(0.5 * lines[near] - 0.25 * (lines[near - FINE] + lines[near + FINE])) ** 2
        logs = np.log(windowed + 1e-300)
        bend = logs[0] - 2 * logs[1] + logs[2]
        top = 0.5 * (logs[0] - logs[2]) / np.where(bend < 0, bend, -np.inf)
        harmonic = np.arange(1, centre.size + 1)
        weight = np.where((bend < 0) & (np.abs(top) < 1.5), harmonic**2 * windowed[1], 0.0)
        if not weight.sum() > 0:
            break
        place = float((weight * (centre + top) / harmonic).sum() / weight.sum())
    return place


def _multiple(power: Floats, evidence: Floats, place: float, limit: float) -> int:
    """By what the frequency has to be multiplied because all lines that are not multiples are missing."""
    product = 1
    while True:
        factor = next((f for f in DIVISORS if _only_multiples(power, evidence, place * product, f, limit)), 1)
        if factor == 1:
            return product
        product *= factor


def _only_multiples(power: Floats, evidence: Floats, place: float, factor: int, limit: float) -> bool:
    harmonic = np.arange(1, HARMONICS + 1)
    points = np.rint(harmonic * place).astype(np.int64)
    harmonic, points = harmonic[points < evidence.size], points[points < evidence.size]
    multiple = harmonic % factor == 0
    if place * factor > limit or not (evidence[points[multiple]] > PRESENT).any():
        return False
    relevant = power[points] > SHARE * power[points].max()
    between = np.where(relevant, evidence[points], 0.0)[~multiple].cumsum()
    return not (between > BY_CHANCE[: between.size]).any()
