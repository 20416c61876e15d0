"""Deals out rows of several GPUs in a log that does not say which GPU a row is of.

nvidia-smi writes the rows of all GPUs at nearly the same time and in the same order, at each tick. So where
the gaps between rows are of two clearly different lengths, and there are as many rows between two long ones
each time, the first row of a moment is of the first GPU, and so on. Two programs that write into one file at
the same interval look alike. One GPU whose rows come at any even or uneven distance does not.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from dutycycle.contract.trace import TraceRecord

APART_MS = 1000
"""A query takes its time for each GPU: rows of one tick are less than this apart."""
_CLEARLY = 2.0
"""How much longer a gap between moments is than one within, at the least."""
_UNSHARP_MS = 10
"""Gaps that differ by less are of one length."""
_USUAL = 0.8
"""The share of moments that have the same number of rows."""
_LEAST_MOMENTS = 3
_MOST_SPLITS = 10


@dataclass(frozen=True, slots=True)
class Deal:
    """Says how rows are dealt out: so many GPUs, whose rows are at most ``within_ms`` after one another."""

    gpus: int = 1
    within_ms: float = 0.0
    interval_ms: int | None = None


def find_deal(times_ms: Sequence[int]) -> Deal:
    """Tell from the times of rows how many GPUs they are of; one where that is not clear."""
    times = sorted(times_ms)
    gaps = sorted({later - earlier for earlier, later in pairwise(times)})
    splits = sorted(
        ((longer + _UNSHARP_MS) / (shorter + _UNSHARP_MS), (shorter + longer) / 2)
        for shorter, longer in pairwise(gaps)
    )
    for ratio, within_ms in reversed(splits[-_MOST_SPLITS:]):
        if ratio < _CLEARLY:
            break
        moments = [[times[0]]]
        for earlier, later in pairwise(times):
            if later - earlier > within_ms:
                moments.append([])
            moments[-1].append(later)
        if len(moments) < _LEAST_MOMENTS:
            continue
        rows, count = Counter(map(len, moments[:-1])).most_common(1)[0]  # the last may be cut off
        spans_ms = sorted(moment[-1] - moment[0] for moment in moments if len(moment) == rows)
        if rows > 1 and count >= _USUAL * (len(moments) - 1) and spans_ms[len(spans_ms) // 2] < APART_MS:
            between = sorted(later[0] - earlier[0] for earlier, later in pairwise(moments))
            return Deal(rows, within_ms, between[(len(between) - 1) // 2])
    return Deal()


class Doubles:
    """Knows the rows of a moment, and which of them an earlier file has as well.

    A file itself may have equal rows: of an idle GPU several in one second. Rows of file 0 are no doubles.
    """

    def __init__(self) -> None:
        self._ts_ms: int | None = None
        self._counts: Counter[tuple[str | None, bytes | None, int]] = Counter()
        self._most: Counter[tuple[str | None, bytes | None]] = Counter()

    def is_double(self, row: TraceRecord) -> bool:
        """Take a row, in order of time and then of files, which are its ``partition``."""
        if row.ts_ms != self._ts_ms:
            self._ts_ms = row.ts_ms
            self._counts.clear()
            self._most.clear()
        self._counts[row.key, row.payload, row.partition] += 1
        if self._counts[row.key, row.payload, row.partition] <= self._most[row.key, row.payload]:
            return True
        self._most[row.key, row.payload] += 1
        return False
