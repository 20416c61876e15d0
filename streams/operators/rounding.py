"""Makes numbers as a reader likes them."""

import numpy as np
import numpy.typing as npt

_EXACT = 2.0**53
"""From here on a float holds no more than whole numbers, and JSON's writers no integers of any size."""


def tidy(value: float) -> float:
    """Return the same number, as an integer where it is one: ``97`` reads better than ``97.0``."""
    return int(value) if value.is_integer() and -_EXACT < value < _EXACT else value


def tidied(column: npt.NDArray[np.float64]) -> list[float]:
    """Return ``tidy`` of each number of a column."""
    most, least = _EXACT, -_EXACT  # inlined: most numbers of a node's windows come by here
    return [int(value) if value.is_integer() and least < value < most else value for value in column.tolist()]
