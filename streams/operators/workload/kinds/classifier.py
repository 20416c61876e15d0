"""Tells what kind of job a pod is, from the features of its last minutes, by the curves of each.

So any answer can be taken apart. Curves were fitted by ``bench/fit_kinds.py`` to the tuning shapes and seeds
of ``bench/generators_jobs.py``; the scores are divided by a temperature that makes confidences true (C. Guo
et al. 2017, "On calibration of modern neural networks").
"""

from typing import NamedTuple

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.channels import IDLE_PCT
from streams.operators.workload.kinds.curves import POD_CURVES, Curves, probabilities_of, read_curves
from streams.operators.workload.kinds.features import NAMES

WORKLOAD_KINDS = ("training", "inference", "loading", "idle", "interactive", "unknown")
UNKNOWN_KIND = "unknown"
_PLACE_OF_UNKNOWN = WORKLOAD_KINDS.index(UNKNOWN_KIND)
_TRAINS = 0.9
"""So much of what has steps on tensor cores is training; inference on batches of one size has them, too."""
MIN_CONFIDENCE = 0.6
"""With a lower probability the answer is ``unknown``."""
NOTHING_KNOWN = 0.34
"""How sure ``unknown`` is where nothing is measured: that no other answer would be right, and two pods of
three with a GPU train."""
# Below it a pod is no longer kept at the kind that it was: doubt alone is no evidence of another one.
_UNLIKELY = 0.2
_USED_S = 30
"""A GPU whose mean utilization over so long is at least ``IDLE_PCT`` is used."""
_FILLS = 0.02
"""GPU memory that rose by one point while the pod was seen, in units of ``mem_rise_all``."""
_GROWS = 0.1
"""Host memory that grew by a step of its channel in the last minute: 7 %."""
_COMES = 0.3
"""Some 60 kB/s read, received or written in the last minute, in units of ``read_recent``."""
_BLIND = 0.5
"""Where a larger share of the CPU's values is absent, the pod is judged by its GPU alone."""
_IDLE, _LOADING = "idle", "loading"
_PLACE = {name: place for place, name in enumerate(NAMES)}


class KindEstimate(NamedTuple):
    """Holds a kind and the probability that it is right, 0-1. For ``unknown``: that no other answer would
    be."""

    kind: str
    confidence: float


_FITTED = read_curves(POD_CURVES)
_WEIGHTS, _CURVES = np.array(_FITTED.weights), Curves(_FITTED.knots.values(), may_be_absent=False)


def kind_probabilities(features: Floats) -> Floats:
    """Return the probability of each of ``WORKLOAD_KINDS``, shape (kinds,); they add up to 1."""
    # One fixed order of summing: the same bits for one pod as for many.
    of_terms = _WEIGHTS * _CURVES.terms(features)[:, np.newaxis]
    return probabilities_of((of_terms[0] + of_terms[1:].sum(axis=0)) / _FITTED.temperature)


def choose_kind(
    probabilities: Floats,
    before: str | None = None,
    least: float = MIN_CONFIDENCE,
    stays_at: float = _UNLIKELY,
) -> KindEstimate:
    """Return the likeliest kind, or ``unknown`` where none is as likely as ``least``.

    In doubt a pod stays what it was ``before``, as long as that is not less likely than ``stays_at``: doubt
    is no evidence."""
    place = int(np.argmax(probabilities))
    chance = float(probabilities[place])
    if before is not None and before != UNKNOWN_KIND and (
        WORKLOAD_KINDS[place] == UNKNOWN_KIND or chance < least
    ):  # fmt: skip
        stays = float(probabilities[WORKLOAD_KINDS.index(before)])
        if stays >= stays_at:
            return KindEstimate(before, stays)
    if WORKLOAD_KINDS[place] != UNKNOWN_KIND and chance < least:
        return KindEstimate(UNKNOWN_KIND, 1.0 - chance)
    return KindEstimate(WORKLOAD_KINDS[place], chance)


def with_steps_inside(probabilities: Floats, confidence: float) -> Floats:
    """Correct ``probabilities`` of a pod whose tensor cores work in steps, with this ``confidence``, while
    utilization shows none. What the models, which do not know of them, call unknown then trains."""
    moved = confidence * _TRAINS * probabilities[_PLACE_OF_UNKNOWN]
    moved_probabilities = probabilities.copy()
    moved_probabilities[WORKLOAD_KINDS.index("training")] += moved
    moved_probabilities[_PLACE_OF_UNKNOWN] -= moved
    return moved_probabilities


def checked_kind(estimate: KindEstimate, util: Floats) -> KindEstimate:
    """Return the estimate, or ``unknown`` where utilization rules it out: a pod is neither idle nor loading
    whose GPU is used, whatever a model makes of it. ``util``: by second, newest last."""
    if estimate.kind not in (_IDLE, _LOADING):
        return estimate
    recent = util[-_USED_S:]
    known = recent[~np.isnan(recent)]
    is_used = known.size and known.mean() >= IDLE_PCT
    return KindEstimate(UNKNOWN_KIND, 1.0 - estimate.confidence) if is_used else estimate


def checked_loading(estimate: KindEstimate, features: Floats) -> KindEstimate:
    """Return the estimate, or ``unknown`` if a pod is called loading while no data come and no memory fills:
    all loading pods that the model was fitted to did some of that."""
    if estimate.kind != _LOADING:
        return estimate
    fills = features[_PLACE["mem_rise_all"]] >= _FILLS or features[_PLACE["host_mem_rise"]] >= _GROWS
    comes = max(features[_PLACE[f"{name}_recent"]] for name in ("read", "rx", "write")) >= _COMES
    return estimate if fills or comes else KindEstimate(UNKNOWN_KIND, 1.0 - estimate.confidence)


def is_blind(features: Floats) -> bool:
    """Tell whether most of the CPU's values are absent: features take these for those of a quiet pod."""
    return bool(features[_PLACE["no_cgroup"]] > _BLIND)
