"""What kind of job a pod is, from the features of its last minutes: an additive multinomial logistic
regression.

Each feature adds to the score of each kind by a curve of straight pieces, so any answer can be taken apart.
Curves were fitted by ``bench/fit_kind.py`` to the tuning shapes and seeds of ``bench/generators_jobs.py``;
the scores are divided by a temperature that makes confidences true (C. Guo et al. 2017, "On calibration of
modern neural networks").
"""

from typing import NamedTuple

import numpy as np

from streams.operators.columns.arrays import Floats
from streams.operators.workload.classifier_weights import KNOTS, TEMPERATURE, WEIGHTS
from streams.operators.workload.features import NAMES

KINDS = ("training", "inference", "loading", "idle", "interactive", "unknown")
UNKNOWN = "unknown"
SURE = 0.6
"""A chance below this is no answer."""
UNLIKELY = 0.2
USED = 0.05
"""A GPU whose utilization was this much on average in the last minute is not idle, 0-1,"""
RESTED_S = 30
"""but for one that has rested for so long since."""
_BLIND = 0.5
"""Where a larger share of the CPU's figures is absent, the pod is judged by its GPU alone."""
_LONG = 0.98
"""Of the time that features go back to."""
_IDLE = "idle"
_PLACE = {name: place for place, name in enumerate(NAMES)}


class Kind(NamedTuple):
    """The answer, and the chance that it is right, 0-1. Of ``unknown``: that nothing can be told."""

    kind: str
    confidence: float


def basis(features: Floats, knots: tuple[tuple[float, ...], ...] = KNOTS) -> Floats:
    """One, and for each feature itself and how far it is beyond each knot; last axis (1 + all of them,)."""
    columns = [np.ones(features.shape[:-1])]
    for place, bends in enumerate(knots):
        one = features[..., place]
        columns += [one, *(np.maximum(one - bend, 0.0) for bend in bends)]
    return np.stack(columns, axis=-1)


_PLACES = np.array([place for place, bends in enumerate(KNOTS) for _ in (0, *bends)], np.int64)
_BENDS = np.array([bend for bends in KNOTS for bend in (-np.inf, *bends)])
_FIRST = np.isinf(_BENDS)
_WEIGHTS = np.array(WEIGHTS)


def chances(features: Floats) -> Floats:
    """The chance of each of ``KINDS``; they add up to 1."""
    values = features[_PLACES]
    terms = np.where(_FIRST, values, np.maximum(values - _BENDS, 0.0))
    # One fixed order of summing: the same bits for one pod as for many.
    scores = (_WEIGHTS[0] + (_WEIGHTS[1:] * terms[:, np.newaxis]).sum(axis=0)) / TEMPERATURE
    grown = np.exp(scores - scores.max())
    return np.asarray(grown / grown.sum())


def answer(of: Floats, before: str | None = None) -> Kind:
    """The likeliest kind, or ``unknown`` where none is likely enough.

    What a pod was ``before`` it stays in doubt, as long as that is not unlikely: doubt is no evidence.
    """
    place = int(np.argmax(of))
    chance = float(of[place])
    if before is not None and before != UNKNOWN and (KINDS[place] == UNKNOWN or chance < SURE):
        stays = float(of[KINDS.index(before)])
        if stays >= UNLIKELY:
            return Kind(before, stays)
    if KINDS[place] != UNKNOWN and chance < SURE:
        return Kind(UNKNOWN, 1.0 - chance)
    return Kind(KINDS[place], chance)


def borne_out(found: Kind, features: Floats) -> Kind:
    """``found``, or ``unknown`` where ``features`` do not bear it out, whatever the model makes of them.

    A pod is not idle whose GPU is used. Weights were fitted to pods whose CPU is seen, and features take
    absent figures for those of a quiet pod: where most are absent, all that is told is that a GPU has not
    been touched for as long as features go back, which is longer than most pods take to load.
    """
    if found.kind == _IDLE and _used(features):
        return Kind(UNKNOWN, 1.0)
    if features[_PLACE["no_cgroup"]] > _BLIND and not (found.kind == _IDLE and _untouched(features)):
        return Kind(UNKNOWN, 1.0)
    return found


def _used(features: Floats) -> bool:
    rested_s = 2 ** (8 * features[_PLACE["rest_now"]]) - 1
    return bool(features[_PLACE["util_recent"]] >= USED and rested_s < RESTED_S)


def _untouched(features: Floats) -> bool:
    busy, moves, minutes = (features[_PLACE[name]] for name in ("busy_share", "mem_moves", "minutes"))
    return bool(busy == 0 and moves == 0 and minutes >= _LONG)
