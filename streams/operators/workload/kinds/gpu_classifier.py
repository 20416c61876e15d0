"""What kind of job a pod is, from its GPUs alone: an additive multinomial logistic regression, as
``classifier`` is, in which a figure that is not known has a weight of its own instead of a value.

Kinds are as common as in public logs of GPUs. A cycle of utilization is further evidence: trainings have one
far more often than servers."""

from collections.abc import Sequence

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.kinds.gpu_weights import KNOTS, TEMPERATURE, WEIGHTS

_WEIGHTS = np.array(WEIGHTS)
_CYCLE = np.array([1.6, -0.6, -0.5, -1.5, -0.5, -0.4])
"""What a cycle that is sure adds to the scores: the log of how much more often jobs of a kind have one."""


def terms(features: Floats, knots: Sequence[Sequence[float]] = KNOTS) -> Floats:
    """What the scores are sums of: one, and of each feature whether it is absent, its value, and how far it
    is beyond each knot; last axis (1 + all of them,). Of an absent feature all but the first are 0."""
    columns = [np.ones(features.shape[:-1])]
    for place, bends in enumerate(knots):
        column = features[..., place]
        absent = np.isnan(column)
        value = np.where(absent, 0.0, column)
        columns += [absent.astype(float), value]
        columns += [np.where(absent, 0.0, np.maximum(value - bend, 0.0)) for bend in bends]
    return np.stack(columns, axis=-1)


def gpu_kind_probabilities(features: Floats, rhythm: float) -> Floats:
    """The probability of each of ``WORKLOAD_KINDS``, shape (kinds,); they add up to 1. ``rhythm``: how sure a
    cycle of its utilization was in the last half hour, 0 for none."""
    # One fixed order of summing: the same bits on every machine.
    scores = (_WEIGHTS * terms(features)[:, np.newaxis]).sum(axis=0) / TEMPERATURE
    scores = scores + rhythm * _CYCLE
    grown = np.exp(scores - scores.max())
    return np.asarray(grown / grown.sum())
