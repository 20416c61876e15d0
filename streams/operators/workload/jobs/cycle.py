"""Finds one cycle for a job from the cycles of its ranks, which step together: that which most of them have.

A cycle that a single rank has may be chance, or its own. What ranks of no cycle do together by chance looks
like one to all of them, so a job waits until a cycle has lasted for longer than chance does. A job has
thousands of ranks at most, so each is compared with its neighbours by length alone.
"""

from collections.abc import Sequence

import numpy as np

from dutycycle.contract.records.derived import CycleMetric, OtherCycle
from dutycycle.contract.records.parts import WorkloadState

Rank = tuple[int, WorkloadState]
"""How many GPUs a pod of a job holds, and its state."""
SAME = 0.03
"""Periods that differ by less than this share are one, as for the scales of a series."""
QUORUM = 1 / 3
"""More than this share of the GPUs has to have a cycle: one rank of two is enough, one of three is not."""
QUORUM_OF_OTHERS = 1 / 2
"""A further cycle has to be that of most; and the main one of most of those GPUs that have any."""
LASTED = 4.5
"""Periods for which one rank at least has to have had a cycle. Ranks that wander together without one show up
to four that are alike."""
OTHERS = 3
"""At most so many further cycles are said."""


def job_cycle(ranks: Sequence[Rank]) -> CycleMetric:
    """Return the cycle that most of the ranks have, weighted by their GPUs and how sure they are, and further
    ones.

    Of a job of one rank it is that rank's, once it has lasted. The period is the weighted median, the
    confidence the weighted mean, since when the median of those that have it.
    """
    # All cycles by rising length: period, confidence, its rank's GPUs, since when, whether it has lasted.
    rows = sorted(
        (period_s, confidence, gpus, state.cycle_since_ms or 0, state.seen_ms >= at_ms)
        for gpus, state in ranks
        for (period_s, confidence), at_ms in zip(_cycles(state), lasted_ms(state), strict=True)
    )
    left = np.array(rows, np.float64).reshape(-1, 5)
    total = sum(gpus for gpus, _ in ranks)
    cyclic = sum(gpus for gpus, state in ranks if state.period_s is not None)
    enough = max(QUORUM * total, QUORUM_OF_OTHERS * cyclic)
    periods: list[tuple[float, float, int]] = []
    while len(left) and len(periods) <= OTHERS:
        # Of rising lengths: those near the one that has most weight around it, of equals the shortest.
        lengths, confidences, of_gpus = left.T[:3]
        weights = np.append(0.0, np.cumsum(confidences * of_gpus))
        first = np.searchsorted(lengths, lengths * (1 - SAME), "left")
        last = np.searchsorted(lengths, lengths * (1 + SAME), "right")
        heaviest = int(np.argmax((weights[last] - weights[first]).round(6)))
        inside = slice(int(first[heaviest]), int(last[heaviest]))
        lengths, confidences, of_gpus, since, lasted = left[inside].T
        left = np.delete(left, inside, axis=0)
        if periods:
            counts = of_gpus.sum() > QUORUM_OF_OTHERS * total
        else:
            counts = of_gpus.sum() > enough and lasted.any()
        if counts:
            sums = np.cumsum(confidences * of_gpus)
            middle = min(int(np.searchsorted(sums, sums[-1] / 2)), len(sums) - 1)
            confidence = round(float(np.average(confidences, weights=of_gpus)), 6)
            periods.append((float(lengths[middle]), confidence, int(np.sort(since)[(len(since) - 1) // 2])))
    if not periods:
        return CycleMetric(cyclic=False)
    (period_s, confidence, since_ms), *others = periods
    return CycleMetric(
        cyclic=True, period_s=period_s, confidence=confidence, since_ms=since_ms or None,
        others=tuple(OtherCycle(period_s=period_s, confidence=sure) for period_s, sure, _ in others) or None,
    )  # fmt: skip


def lasted_ms(state: WorkloadState) -> list[int]:
    """Tell when each of a rank's cycles has lasted for long enough, the main one first; 0 if it is not known
    since when. That of further ones is not told, so they count from the start of the main one."""
    since_ms = state.cycle_since_ms
    return [
        0 if since_ms is None else since_ms + round(1000 * LASTED * period_s)
        for period_s, _ in _cycles(state)
    ]


def _cycles(state: WorkloadState) -> list[tuple[float, float]]:
    if state.period_s is None:
        return []
    others = [(other.period_s, other.confidence) for other in state.other_cycles or ()]
    return [(state.period_s, state.confidence or 0.0), *others]
