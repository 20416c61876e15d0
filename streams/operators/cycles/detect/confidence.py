"""Weighs the chance that a period is that of a real cycle, from what the spectrum and the fold say of it.

A logistic regression, whose weights were fitted to windows of 76 to 600 samples (ADR 5); of the
periods that are judged there nine in ten are right. Where cycles are rarer, so is being right with a low
confidence.
"""

import numpy as np

from streams.compiled import kernel
from streams.operators.columns.arrays import Floats

WEIGHTS = (7.683, 2.696, -3.447, -6.068, 1.922, -2.551)
"""Of the figures that ``weigh`` writes."""
EVIDENCE = len(WEIGHTS)
ENOUGH = 30.0
"""A score above this says no more than this."""
LITTLE = 0.05
"""Fewer periods explained than this say no less than this."""


@kernel
def weigh(score: float, noise: float, periods: float, explained: float, varied: float, known: Floats) -> None:
    """Write what speaks for a cycle into ``known``: one, and five figures of about -3 to 5.

    ``score`` is that of the peak in the spectrum, ``noise`` the variance of the series' noise, the others
    are those of ``fold``. What is neither noise nor explained speaks against a cycle: bursts at odd
    distances have lines and hardly any noise, but no shape that they share.
    """
    known[0] = 1.0
    known[1] = min(max(score, -20.0), ENOUGH) / 10
    known[2] = max(explained, -0.5)
    known[3] = min(max(1 - explained - noise / max(varied, LITTLE), 0.0), 1.5)
    known[4] = np.log(max(explained * periods, LITTLE))
    known[5] = np.log(periods)


@kernel
def chance(known: Floats, weights: tuple[float, ...]) -> float:
    """Return the chance (0-1) that follows from the evidence that is ``known``."""
    total = 0.0
    for at in range(known.size):
        total += known[at] * weights[at]
    return float(1 / (1 + np.exp(-total)))
