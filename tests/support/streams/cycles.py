"""Cycles as results, and series without one."""

import numpy as np

from dutycycle.contract.records.derived import CycleMetric, OtherCycle
from streams.operators.columns.arrays import Floats

LONG_AGO_MS = -1_000_000


def cycle(
    period_s: float, *others_s: float, confidence: float = 0.9, since_ms: int = LONG_AGO_MS
) -> CycleMetric:
    """A main cycle and further ones."""
    others = tuple(OtherCycle(period_s=one, confidence=0.9) for one in others_s) or None
    return CycleMetric(
        cyclic=True, period_s=period_s, confidence=confidence, since_ms=since_ms, others=others
    )


def idle(length: int) -> Floats:
    """A little noise about 2."""
    return 2 + 0.3 * np.random.default_rng(length).normal(size=length)
