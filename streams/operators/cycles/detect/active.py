"""The part of a series in which something goes on, so that idleness around a job does not hide its cycle."""

import numpy as np

from streams.operators.columns.arrays import Bools, Floats, Ints

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


def active(samples: Floats) -> tuple[Ints, Ints]:
    """Where the active part of each row of ``samples`` begins and ends, shape (rows,) each.

    All of the row if it has no idle ends, none of it if it is the same value throughout.
    """
    length = samples.shape[1]
    if length < 2 * BLOCK:
        return np.zeros(len(samples), np.int64), np.zeros(len(samples), np.int64)
    blocks = samples[:, : length // BLOCK * BLOCK].reshape(len(samples), -1, BLOCK)
    high, low = blocks.max(axis=2), blocks.min(axis=2)
    span = high.max(axis=1) - low.min(axis=1)
    busy = high - low > STILL * span[:, np.newaxis]
    before, resting, after = _still(busy)
    margin = LONGER * resting + 1
    first = np.where(before > margin, before, 0) * BLOCK
    last = np.where(after > margin, (busy.shape[1] - after) * BLOCK, length)
    return np.where(span > 0, first, 0), np.where(span > 0, last, 0)


def beginning(window: Floats, begin: int) -> Floats:
    """What of ``window`` is active, from the sample on; ``begin`` is the block in which it starts to be."""
    if begin <= 0:
        return window
    idle, block = window[max(begin - BEFORE, 0) : begin], window[begin : begin + BLOCK]
    low, high = idle.min(), idle.max()
    margin = MARGIN * (high - low)
    return window[begin + int(((block < low - margin) | (block > high + margin)).argmax()) :]


def _still(busy: Bools) -> tuple[Ints, Ints, Ints]:
    """Still blocks before the first busy one of each row, longest run of them between, and after the last.

    A row that is nowhere busy has none of these.
    """
    size = busy.shape[1]
    place = np.arange(size)
    newest = np.maximum.accumulate(np.where(busy, place, -1), axis=1)
    before = busy.argmax(axis=1)
    after = np.where(newest[:, -1] >= 0, size - 1 - newest[:, -1], 0)
    run = np.where(newest[:, :-1] >= 0, place[1:] - newest[:, :-1] - 1, 0)
    between = np.where(busy[:, 1:], run, 0).max(axis=1, initial=0)
    return before, between, after
