"""Loops over the numbers of one array that many kernels need: numba compiles its own forms of them, which can
do far more, for half a second each."""

import numpy as np

from streams.compiled import kernel
from streams.operators.columns.arrays import Floats, Ints

_GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)
"""Of sorting: D. Shell 1959, M. Ciura 2001."""


@kernel
def copy_into(target: Floats, source: Floats) -> None:
    """Write all of ``source`` into the first places of ``target``; where they overlap, ``target`` begins
    first."""
    for at in range(len(source)):
        target[at] = source[at]


@kernel
def sort(values: Floats) -> None:
    """Sort ``values`` in place, NaN last."""
    for gap in _GAPS:
        for at in range(gap, len(values)):
            value, place = values[at], at
            while place >= gap and (
                values[place - gap] > value or (np.isnan(values[place - gap]) and not np.isnan(value))
            ):
                values[place] = values[place - gap]
                place -= gap
            values[place] = value


@kernel
def sorted_known(values: Floats) -> Floats:
    """Return the ``values`` but for NaN, sorted."""
    known, count = np.empty(len(values)), 0
    for value in values:
        if not np.isnan(value):
            known[count] = value
            count += 1
    sort(known[:count])
    return known[:count]


@kernel
def order_of(values: Floats) -> Ints:
    """Return the places of ``values``, none of which is NaN, from the smallest to the largest; of equals the
    first comes first."""
    order = np.empty(len(values), np.int64)
    for at in range(len(values)):
        order[at] = at
    for gap in _GAPS:
        for at in range(gap, len(values)):
            index, place = order[at], at
            value = values[index]
            while place >= gap:
                other = order[place - gap]
                if values[other] < value or (values[other] == value and other < index):
                    break
                order[place] = other
                place -= gap
            order[place] = index
    return order


@kernel
def average(values: Floats) -> float:
    """Return the mean of at least one value."""
    total = 0.0
    for value in values:
        total += value
    return total / values.size


@kernel
def largest(values: Floats) -> float:
    """Return the largest of at least one value; NaN if one is."""
    most = values[0]
    for value in values:
        most = np.maximum(most, value)
    return float(most)


@kernel
def deviation(values: Floats) -> float:
    """Return the standard deviation of at least one value."""
    mean, total = average(values), 0.0
    for value in values:
        total += (value - mean) ** 2
    return float(np.sqrt(total / values.size))


@kernel
def share_from(values: Floats, least: float) -> float:
    """Return the share of the values that are not below ``least``."""
    count = 0
    for value in values:
        count += value >= least
    return count / values.size


@kernel
def correlation(first: Floats, other: Floats, least: float, otherwise: float) -> float:
    """Return Pearson's correlation; ``otherwise`` where one of the two moves by less than ``least``."""
    mean, mean_of_other = average(first), average(other)
    both, square, square_of_other = 0.0, 0.0, 0.0
    for at in range(first.size):
        a, b = first[at] - mean, other[at] - mean_of_other
        both += a * b
        square += a * a
        square_of_other += b * b
    size = np.sqrt(square * square_of_other)
    return float(both / size) if size > least * first.size else otherwise
