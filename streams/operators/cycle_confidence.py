"""How likely a rhythm is real: what the spectrum and the fold say, weighed by a logistic regression.

The weights are fitted by ``bench/fit_cycle.py`` to windows of 76 to 600 samples, of which two in five hold
a rhythm. Where rhythms are rarer, so is being right with a low confidence.
"""

import numpy as np

from streams.operators.bank_state import Floats
from streams.operators.cycle_fold import Folds

WEIGHTS = (-1.885, 5.215, 6.693, -0.74, 2.715, 3.6)
"""Of the parts of ``evidence``."""
ENOUGH = 30.0
"""A score above this says no more than this."""


def evidence(score: Floats, folds: Folds) -> Floats:
    """What speaks for rhythms, shape (rhythms, 6): one, and figures of about -1 to 3."""
    parts = (
        np.ones(score.size),
        np.clip(score, -20.0, ENOUGH) / 10,
        np.maximum(folds.explained, -0.5),
        folds.median,
        folds.least,
        1 / folds.periods,
    )
    return np.stack(parts, axis=1)


def confidence(score: Floats, folds: Folds) -> Floats:
    """The chance (0-1) that peaks with these scores, folded so, are the periods of real rhythms."""
    return np.asarray(1 / (1 + np.exp(-(evidence(score, folds) * WEIGHTS).sum(axis=1))))
