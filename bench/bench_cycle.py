"""Asks our detector for the cycle of a generated case, and says whether it was right. Tuned on seeds 0-99.

A period within 5 % of the true one is a hit: jitter alone moves the mean period of five bursts by 2 %. A
wrong period is a false alarm and a miss at once.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from bench.generators import Case
from dutycycle.experiments.scores.cycles import f1 as cycle_f1
from dutycycle.experiments.scores.cycles import is_close
from streams.operators.cycles.detect.window import find_cycles

BATCH = 24
"""Series evaluated together: about what one node has."""


@dataclass(frozen=True, slots=True)
class CycleAnswer:
    """What the detector said of a case; ``period`` None for no cycle, in samples."""

    case: Case
    period: float | None
    confidence: float

    @property
    def error(self) -> float:
        """Relative error of the period; infinite without one."""
        if self.period is None or self.case.period is None:
            return float("inf")
        return abs(self.period / self.case.period - 1)

    @property
    def right(self) -> bool:
        """Whether there is nothing to blame."""
        return self.period is None if self.case.period is None else is_close(self.period, self.case.period)


def answers(cases: Sequence[Case]) -> tuple[list[CycleAnswer], float]:
    """The answers, and microseconds per case."""
    said: list[CycleAnswer] = []
    spent = 0.0
    for first in range(0, len(cases), BATCH):
        batch = cases[first : first + BATCH]
        windows = [case.series() for case in batch]
        began = time.process_time()
        found = find_cycles(windows)
        spent += time.process_time() - began
        for case, one in zip(batch, found, strict=True):
            main = one.cycles[0] if one else None
            said.append(CycleAnswer(case, main.period if main else None, main.confidence if main else 0.0))
    return said, spent / len(cases) * 1e6


def f1(positive: Sequence[CycleAnswer], negative: Sequence[CycleAnswer]) -> float:
    """Harmonic mean of precision and recall."""
    hits = sum(answer.right for answer in positive)
    alarms = sum(answer.period is not None and not answer.right for answer in (*positive, *negative))
    misses = len(positive) - hits
    return cycle_f1(hits, alarms, misses) or 0.0
