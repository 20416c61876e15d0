"""One cycle for a job from the cycles of its ranks, which step together: that which most of them have.

A cycle that a single rank has may be chance, or its own. A job has thousands of ranks at most, so each is
compared with its neighbours by length alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from contract.records.derived import CycleMetric, OtherCycle
from contract.records.parts import WorkloadState
from streams.operators.columns.arrays import Bools, Floats, Ints

Rank = tuple[int, WorkloadState]
"""How many GPUs a pod of a job holds, and its state."""
SAME = 0.03
"""Periods that differ by less than this share are one, as for the scales of a series."""
QUORUM = 1 / 3
"""More than this share of the GPUs has to have a cycle: one rank of two is enough, one of three is not."""
QUORUM_OF_OTHERS = 1 / 2
"""A further cycle has to be that of most."""
OTHERS = 3
"""At most so many further cycles are said."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The cycles of all ranks, by rising length: each with its rank's GPUs. Shape (n,) each."""

    periods: Floats
    confidences: Floats
    gpus: Floats
    since_ms: Ints

    def where(self, chosen: Bools) -> "_Known":
        return _Known(
            self.periods[chosen], self.confidences[chosen], self.gpus[chosen], self.since_ms[chosen]
        )


def job_cycle(ranks: Sequence[Rank]) -> CycleMetric:
    """The cycle that most of the ranks have, weighted by their GPUs and how sure they are, and further ones.

    Of a job of one rank it is that rank's. The period is the weighted median, the confidence the weighted
    mean, since when the median of those that have it.
    """
    left = _known(ranks)
    total = sum(gpus for gpus, _ in ranks)
    found: list[tuple[float, float, int]] = []
    while len(left.periods) and len(found) <= OTHERS:
        inside = _heaviest(left)
        those = left.where(inside)
        left = left.where(~inside)
        if those.gpus.sum() > (QUORUM_OF_OTHERS if found else QUORUM) * total:
            found.append(_middle(those))
    if not found:
        return CycleMetric(cyclic=False)
    (period_s, confidence, since_ms), *others = found
    return CycleMetric(
        cyclic=True, period_s=period_s, confidence=confidence, since_ms=since_ms or None,
        others=tuple(OtherCycle(period_s=one, confidence=sure) for one, sure, _ in others) or None,
    )  # fmt: skip


def _known(ranks: Sequence[Rank]) -> _Known:
    rows = [
        (period_s, confidence, gpus, state.cycle_since_ms or 0)
        for gpus, state in ranks
        for period_s, confidence in _cycles(state)
    ]
    rows.sort()
    table = np.array(rows, np.float64).reshape(-1, 4)
    return _Known(table[:, 0], table[:, 1], table[:, 2], table[:, 3].astype(np.int64))


def _cycles(state: WorkloadState) -> list[tuple[float, float]]:
    if state.period_s is None:
        return []
    others = [(one.period_s, one.confidence) for one in state.other_cycles or ()]
    return [(state.period_s, state.confidence or 0.0), *others]


def _heaviest(known: _Known) -> Bools:
    """Which cycles are near the one that has most weight around it; of equals the shortest."""
    sums = np.append(0.0, np.cumsum(known.confidences * known.gpus))
    first = np.searchsorted(known.periods, known.periods * (1 - SAME), "left")
    last = np.searchsorted(known.periods, known.periods * (1 + SAME), "right")
    middle = int(np.argmax((sums[last] - sums[first]).round(6)))
    places = np.arange(len(known.periods))
    return np.asarray((places >= first[middle]) & (places < last[middle]))


def _middle(known: _Known) -> tuple[float, float, int]:
    """Period, confidence and since when of cycles that are one."""
    weights = known.confidences * known.gpus
    sums = np.cumsum(weights)
    place = int(np.searchsorted(sums, sums[-1] / 2))
    confidence = float(np.average(known.confidences, weights=known.gpus))
    since_ms = int(np.sort(known.since_ms)[(len(known.since_ms) - 1) // 2])
    return float(known.periods[min(place, len(sums) - 1)]), round(confidence, 6), since_ms
