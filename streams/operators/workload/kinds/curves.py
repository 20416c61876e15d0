"""Holds what was fitted of the kinds of jobs: an additive multinomial logistic regression, in which each
feature adds to the score of each kind by a curve of straight pieces.

Its numbers are in a file beside this module, which ``bench/fit_kinds.py`` writes.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from streams.operators.columns.arrays import Floats

FOLDER = Path(__file__).parent
POD_CURVES, GPU_CURVES = FOLDER / "pod_curves.json", FOLDER / "gpu_curves.json"


class FittedCurves(msgspec.Struct, frozen=True):
    """Holds the numbers of a model. ``knots``: where the curve of each feature bends, by its name and in the
    order of the features; ``weights``: by term of ``Curves.terms`` and kind; scores are divided by
    ``temperature``."""

    temperature: float
    knots: dict[str, tuple[float, ...]]
    weights: tuple[tuple[float, ...], ...]


def read_curves(path: Path) -> FittedCurves:
    """Read what was fitted."""
    return msgspec.json.decode(path.read_bytes(), type=FittedCurves)


class Curves:
    """Makes the terms that scores are sums of, from features whose curves bend at ``knots``. Where one
    ``may_be_absent``, that it is absent has a weight of its own."""

    def __init__(self, knots: Iterable[Sequence[float]], *, may_be_absent: bool) -> None:
        # The value of a feature, and its absence, have a knot that is none.
        first = (np.nan, -np.inf) if may_be_absent else (-np.inf,)
        bends = [(*first, *of_feature) for of_feature in knots]
        self._places = np.repeat(np.arange(len(bends)), [len(of_feature) for of_feature in bends])
        self._bends = np.concatenate(bends)
        self._is_absence, self._is_value = np.isnan(self._bends), np.isinf(self._bends)
        self._may_be_absent = may_be_absent

    def terms(self, features: Floats) -> Floats:
        """Return one, and of each feature whether it is absent, its value, and how far it is beyond each
        knot; last axis (1 + all of them,). Of an absent feature all but the first are 0."""
        values = features[..., self._places]
        terms = np.ones((*features.shape[:-1], 1 + self._places.size))
        terms[..., 1:] = np.where(self._is_value, values, np.maximum(values - self._bends, 0.0))
        if self._may_be_absent:
            absent = np.isnan(values)
            terms[..., 1:] = np.where(self._is_absence, absent, np.where(absent, 0.0, terms[..., 1:]))
        return terms


def probabilities_of(scores: Floats) -> Floats:
    """Return the probability of each kind, shape (kinds,); they add up to 1."""
    grown = np.exp(scores - scores.max())
    return np.asarray(grown / grown.sum())
