"""Tells what kind of job a pod is, from its GPUs alone: by curves, as ``classifier`` does. A figure that is
not known has a weight of its own instead of a value.

Kinds are as common as in public logs of GPUs. A cycle of utilization is further evidence: trainings have one
far more often than servers.
"""

from collections.abc import Sequence

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.kinds.classifier import (
    UNKNOWN_KIND,
    WORKLOAD_KINDS,
    KindEstimate,
    choose_kind,
)
from streams.operators.workload.kinds.curves import GPU_CURVES, Curves, probabilities_of, read_curves
from streams.operators.workload.kinds.history import GpuHistory

_FITTED = read_curves(GPU_CURVES)
_WEIGHTS, _CURVES = np.array(_FITTED.weights), Curves(_FITTED.knots.values(), may_be_absent=True)
_CYCLE = np.array([1.6, -0.6, -0.5, -1.5, -0.5, -0.4])
"""What a cycle that is sure adds to the scores: the log of how much more often jobs of a kind have one."""

_TRIED = np.array([-4.0, -3.0, 0.0, 0.0, 1.0, 0.0])
"""The same of tries (``gpu_features.tries``): who starts the same again and again watches it, and a training
or a server lives longer."""

_LEAST = {"inference": 0.65, "loading": 0.9, "idle": 0.85}
"""The least confidence of a kind. Two of three such pods train whatever they show, so where a server is
likely much was seen that speaks for it. That a pod loads would be seen on its disk and network. Most that
show nothing in their first minutes train later, or wait for data; what rests by its power is told by that."""
_LEAST_OF_OTHERS = 0.8
"""The same of all other kinds."""
_TRAINS_FROM = ((300, 0.65), (120, 0.75), (0, 0.85))
"""The same of training, once a GPU was busy for so many seconds: the first work of most pods looks alike."""
_STAYS_FROM = ((300, 0.5), (0, 0.6))
"""With which a pod stays of a kind, once a GPU was busy for so many seconds. What its first work was taken
for has to be borne out; after that it stays while that is likelier than not, as more kinds look alike than
with CPU."""
LEAST_WORK_S = 1.0
"""Of work at full utilization. A GPU that did less has only started: it shows no kind of work."""
_TRAINING, _INTERACTIVE = "training", "interactive"  # who works by hand begins again and again
_WORK = frozenset({_TRAINING, "inference", _INTERACTIVE})


def choose_gpu_kind(
    probabilities: Floats,
    before: str | None,
    history: GpuHistory,
    *,
    rhythm: float = 0.0,
) -> KindEstimate:
    """Return the likeliest kind, or ``unknown`` where none is likely enough. ``before``: the one that was
    told."""
    likeliest = WORKLOAD_KINDS[int(np.argmax(probabilities))]
    least = _LEAST.get(likeliest, _LEAST_OF_OTHERS)
    if likeliest == _TRAINING:
        borne_out = _TRAINS_FROM[0][1]
        least = borne_out + (1 - rhythm) * (_from_work(_TRAINS_FROM, history) - borne_out)
    kind = choose_kind(probabilities, before, least, _from_work(_STAYS_FROM, history))
    starts = history.work_s < LEAST_WORK_S
    if kind.kind in _WORK and (starts or (kind.kind == _INTERACTIVE and not history.began_again)):
        return KindEstimate(UNKNOWN_KIND, 1 - kind.confidence)
    return kind


def _from_work(steps: Sequence[tuple[int, float]], history: GpuHistory) -> float:
    return next(value for seconds, value in steps if history.worked_s >= seconds)


def gpu_kind_probabilities(features: Floats, rhythm: float, tried: float = 0.0) -> Floats:
    """Return the probability of each of ``WORKLOAD_KINDS``, shape (kinds,); they add up to 1. ``rhythm``: how
    sure a cycle of its utilization was in the last half hour, 0 for none; ``tried``: how sure it is that its
    runs are tries."""
    # One fixed order of summing: the same bits on every machine.
    scores = (_WEIGHTS * _CURVES.terms(features)[:, np.newaxis]).sum(axis=0) / _FITTED.temperature
    return probabilities_of(scores + rhythm * _CYCLE + tried * _TRIED)
