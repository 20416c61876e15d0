"""Numbers as a reader likes them."""

import numpy as np
import numpy.typing as npt


def tidy(value: float) -> float:
    """The same number, as an integer where it is one: ``97`` reads better than ``97.0``."""
    return int(value) if value.is_integer() else value


def tidied(column: npt.NDArray[np.float64]) -> list[float]:
    """``tidy`` of each number of a column."""
    return [int(value) if value.is_integer() else value for value in column.tolist()]
