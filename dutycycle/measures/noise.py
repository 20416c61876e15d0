"""Tells how far a figure of one run can be trusted: the standard error of a mean, from the run itself.

The ticks of a run are no independent samples, so the run is cut into some twenty blocks of whole cycles, and
the blocks are compared (batch means: Law, Simulation Modeling and Analysis, 2015, 9.5.3). Their spread is
taken between neighbours, and by the median: so neither a slow trend nor the few jumps between loading,
training and checkpoints count as noise.
"""

import numpy as np

from dutycycle.traces.frames import Floats

BLOCKS = 20
_LEAST_BLOCKS = 6
_TO_SIGMA = 1.4826 / np.sqrt(2)
"""From the median of differences of two normal values to the standard deviation of one."""


def blocks_of(values: Floats, period: float | None) -> Floats:
    """Return ``values``, one a tick, as blocks of equal length, shape (blocks, ticks): whole cycles of
    ``period`` ticks if there are any. The rest at the end is cut off; blocks without any value are left
    out."""
    length = max(len(values) // BLOCKS, 1)
    if period is not None and period >= 1:
        length = round(np.ceil(length / period) * period)
    count = len(values) // length
    blocks = values[: count * length].reshape(count, length)
    return np.asarray(blocks[np.isfinite(blocks).any(axis=1)])


def error_of_mean(blocks: Floats) -> float | None:
    """Return the standard error of the mean of all; None where there are too few blocks to tell."""
    if len(blocks) < _LEAST_BLOCKS:
        return None
    return _spread(np.nanmean(blocks, axis=1)) / float(np.sqrt(len(blocks)))


def error_of_ratio(amounts: Floats, seconds: Floats) -> float | None:
    """Return the standard error of a rate, from amounts and the time of each; None where there are too few
    ticks."""
    above, below = blocks_of(amounts, None), blocks_of(seconds, None)
    if len(above) < _LEAST_BLOCKS or len(above) != len(below):
        return None
    return _spread(above.sum(axis=1) / below.sum(axis=1)) / float(np.sqrt(len(above)))


def error_of_max(blocks: Floats) -> float | None:
    """Return how much the largest value may differ in the same run once more: the spread of the blocks'
    largest."""
    return _spread(np.nanmax(blocks, axis=1)) if len(blocks) >= _LEAST_BLOCKS else None


def _spread(values: Floats) -> float:
    return float(_TO_SIGMA * np.median(np.abs(np.diff(values))))
