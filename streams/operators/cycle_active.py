"""The part of a series in which something goes on: idle before and after a job does not hide its rhythm."""

import numpy as np

from streams.operators.bank_state import Floats

BLOCK = 8
"""Samples that are looked at together."""
STILL = 0.1
"""A block that spans less than this share of what the series spans is still."""
LONGER = 1.5
"""An end is idle if it is still for so many times the longest still stretch between: rhythms rest, too."""


def active(samples: Floats) -> slice:
    """The part of ``samples`` without idle ends; all of it if that leaves nothing."""
    if samples.size < 2 * BLOCK:
        return slice(0, samples.size)
    blocks = samples[: samples.size // BLOCK * BLOCK].reshape(-1, BLOCK)
    spans = blocks.max(axis=1) - blocks.min(axis=1)
    busy = np.flatnonzero(spans > STILL * (samples.max() - samples.min()))
    if busy.size == 0:
        return slice(0, samples.size)
    resting = int(np.diff(busy).max()) - 1 if busy.size > 1 else 0
    before, after = int(busy[0]), spans.size - 1 - int(busy[-1])
    first = before * BLOCK if before > LONGER * resting + 1 else 0
    last = (spans.size - after) * BLOCK if after > LONGER * resting + 1 else samples.size
    return slice(first, last)
