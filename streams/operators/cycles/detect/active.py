"""Finds the part of a series in which something goes on, so that idleness around a job does not hide its
cycle."""

from streams.compiled import entry, kernel
from streams.operators.columns.arrays import Floats

BLOCK = 8
"""Samples of a block, which is busy or still."""
STILL = 0.1
"""A block that spans less than this share of what the series spans is still."""
BEFORE = 24
"""Idle samples before a beginning that it is held against."""
MARGIN = 0.5
"""Share of their span by which a sample leaves these when something begins."""
LONGER = 1.5
"""An end is idle if it is still for so many times the longest still stretch between: cycles rest, too."""


@kernel
def span_of(samples: Floats) -> tuple[float, float]:
    """Return the smallest and the largest of the samples."""
    low = high = samples[0]
    for value in samples:
        low, high = min(low, value), max(high, value)
    return low, high


@entry("UniTuple(int64, 2)(float64[::1])")
def active(samples: Floats) -> tuple[int, int]:
    """Return where the active part of ``samples`` begins and ends.

    All of them if they have no idle ends, none of them if they are the same value throughout.
    """
    blocks = samples.size // BLOCK
    if blocks < 2:
        return 0, 0
    low, high = span_of(samples[: blocks * BLOCK])
    if low == high:
        return 0, 0
    busy = STILL * (high - low)
    first, last, resting = blocks, -1, 0
    for block in range(blocks):
        low, high = span_of(samples[block * BLOCK : block * BLOCK + BLOCK])
        if high - low > busy:
            if last < 0:
                first = block
            else:
                resting = max(resting, block - last - 1)
            last = block
    if last < 0:
        return 0, samples.size
    margin = LONGER * resting + 1
    begin = first if first > margin else 0
    end = last + 1 if blocks - 1 - last > margin else -1
    return begin * BLOCK, end * BLOCK if end >= 0 else samples.size


@entry("int64(float64[::1], int64)")
def beginning(window: Floats, begin: int) -> int:
    """Return the sample of ``window`` from which it is active; ``begin`` is the block in which it starts to
    be."""
    if begin <= 0:
        return 0
    low, high = span_of(window[max(begin - BEFORE, 0) : begin])
    margin = MARGIN * (high - low)
    for at in range(begin, min(begin + BLOCK, window.size)):
        if window[at] < low - margin or window[at] > high + margin:
            return at
    return begin
