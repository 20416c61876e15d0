"""How likely a cycle is real: what the spectrum and the fold say, weighed by a logistic regression.

The weights are fitted by ``bench/fit_cycle.py`` to windows of 76 to 600 samples; of the periods that are
judged there nine in ten are right. Where cycles are rarer, so is being right with a low confidence.
"""

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.cycles.detect.fold import Folds

WEIGHTS = (7.683, 2.696, -3.447, -6.068, 1.922, -2.551)
"""Of the parts of ``evidence``."""
ENOUGH = 30.0
"""A score above this says no more than this."""
LITTLE = 0.05
"""Fewer periods explained than this say no less than this."""


def evidence(score: Floats, noise: Floats, folds: Folds) -> Floats:
    """What speaks for cycles, shape (cycles, 6): one, and figures of about -3 to 5.

    ``noise`` is the variance of each series' noise. What is neither that nor explained speaks against a
    cycle: bursts at odd distances have lines and hardly any noise, but no shape that they share.
    """
    other = 1 - folds.explained - noise / np.maximum(folds.varied, LITTLE)
    parts = (
        np.ones(score.size),
        np.clip(score, -20.0, ENOUGH) / 10,
        np.maximum(folds.explained, -0.5),
        np.clip(other, 0.0, 1.5),
        np.log(np.maximum(folds.explained * folds.periods, LITTLE)),
        np.log(folds.periods),
    )
    return np.stack(parts, axis=1)


def confidence(score: Floats, noise: Floats, folds: Folds) -> Floats:
    """The chance (0-1) that peaks with these scores, folded so, are the periods of real cycles."""
    return np.asarray(1 / (1 + np.exp(-(evidence(score, noise, folds) * WEIGHTS).sum(axis=1))))
