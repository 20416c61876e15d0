"""How likely a rhythm is real: what the spectrum and the fold say, weighed by a logistic regression.

The weights are fitted by ``bench/fit_cycle.py`` to windows of 76 to 600 samples, of which two in five hold
a rhythm. Where rhythms are rarer, so is being right with a low confidence.
"""

import numpy as np

from streams.operators.bank_state import Floats
from streams.operators.cycle_fold import Fold

WEIGHTS = (-1.288, 2.914, 8.864, -1.85, 1.405, 3.147)
"""Of the parts of ``evidence``."""
ENOUGH = 30.0
"""A score above this says no more than this."""


def evidence(score: float, folded: Fold) -> Floats:
    """What speaks for a rhythm, shape (6,): one, and figures of about -1 to 3."""
    return np.array((
        1.0,
        min(max(score, -20.0), ENOUGH) / 10,
        max(folded.explained, -0.5),
        folded.median,
        folded.least,
        1 / folded.periods,
    ))  # fmt: skip


def confidence(score: float, folded: Fold) -> float:
    """The chance (0-1) that a peak with this score, folded so, is the period of a real rhythm."""
    return float(1 / (1 + np.exp(-float((evidence(score, folded) * WEIGHTS).sum()))))
