"""What kind of job a pod is, from its GPUs alone: an additive multinomial logistic regression, as
``classifier`` is, in which a figure that is not known has a weight of its own instead of a value.

Kinds are as common as in public logs of GPUs. A cycle of utilization is further evidence: trainings have one
far more often than servers."""

from collections.abc import Sequence

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.kinds.classifier import (
    UNKNOWN_KIND,
    WORKLOAD_KINDS,
    KindEstimate,
    choose_kind,
)
from streams.operators.workload.kinds.gpu_weights import KNOTS, TEMPERATURE, WEIGHTS
from streams.operators.workload.kinds.history import GpuHistory

_WEIGHTS = np.array(WEIGHTS)
_CYCLE = np.array([1.6, -0.6, -0.5, -1.5, -0.5, -0.4])
"""What a cycle that is sure adds to the scores: the log of how much more often jobs of a kind have one."""

_LEAST = {"inference": 0.65, "loading": 0.9}
"""The least confidence of a kind. Two of three such pods train whatever they show, so where a server is
likely much was seen that speaks for it. That a pod loads would be seen on its disk and network."""
_LEAST_OF_OTHERS, _STAYS = 0.8, 0.5
"""The same of all other kinds, and with which a pod stays of a kind: while it is likelier than not, as more
kinds look alike than with CPU."""
_TRAINS_FROM = ((300, 0.65), (120, 0.75), (0, 0.85))
"""The same of training, once a GPU was busy for so many seconds: the first work of most pods looks alike."""
_STILL_S = 60
"""One GPU that does not move for so long shows no pause by which a training would be told from a loop."""
LEAST_WORK_S = 1.0
"""Of work at full utilization. A GPU that did less has only started: it shows no kind of work."""
_TRAINING = "training"
_WORK = frozenset({_TRAINING, "inference", "interactive"})


def choose_gpu_kind(
    probabilities: Floats, before: str | None, history: GpuHistory, *, still: bool = False
) -> KindEstimate:
    """The likeliest kind, or ``unknown`` where none is likely enough. ``before``: the one that was told;
    ``still``: it is one GPU whose utilization does not move now."""
    likeliest = WORKLOAD_KINDS[int(np.argmax(probabilities))]
    least = _LEAST.get(likeliest, _LEAST_OF_OTHERS)
    if likeliest == _TRAINING:
        least = next(least for seconds, least in _TRAINS_FROM if history.worked_s >= seconds)
    kind = choose_kind(probabilities, before, least, _STAYS)
    starts = history.work_s < LEAST_WORK_S or (still and history.worked_s < _STILL_S and history.moves <= 1)
    if kind.kind in _WORK and starts:
        return KindEstimate(UNKNOWN_KIND, 1 - kind.confidence)
    return kind


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
