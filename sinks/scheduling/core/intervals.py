"""Predicts what a next value will be, from values like it: order statistics, without any model of their
distribution.

Of ``n`` values and one more, in any order equally likely, the next one lies at or above the ``i``-th smallest
and at or below the ``j``-th with a probability of ``(j - i) / (n + 1)`` at least (David and Nagaraja, Order
Statistics, 2003, 7.2; the same that split conformal prediction rests on).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import floor


@dataclass(frozen=True, slots=True)
class Interval:
    """Holds where a next value lies. ``middle`` is the median of the values of ``pods`` pods; ``low`` and
    ``high`` are two of them.

    ``coverage``: the probability, 0 to 1, that the next value lies within; less than what was wanted where
    the values are too few, and 0 with one value. ``below``: the probability that it is at most ``high``.
    """

    low: float
    middle: float
    high: float
    coverage: float
    below: float
    pods: int


def interval(values: Iterable[float], wanted: float) -> Interval | None:
    """Return the narrowest symmetric interval that covers ``wanted`` (0 to 1), or all that was seen.

    None without values. Raises ``ValueError`` for a ``wanted`` that no interval can have.
    """
    if not 0 < wanted < 1:
        raise ValueError(f"coverage {wanted}: expected a share between 0 and 1")
    ordered = sorted(values)
    count = len(ordered)
    if not count:
        return None
    # a hair more: (1 - 0.8) / 2 * 10 is to be 1, and is less in binary
    lowest = max(floor((1 - wanted) / 2 * (count + 1) + 1e-9), 1)
    highest = count + 1 - lowest
    return Interval(
        low=ordered[lowest - 1],
        middle=(ordered[(count - 1) // 2] + ordered[count // 2]) / 2,
        high=ordered[highest - 1],
        coverage=max(highest - lowest, 0) / (count + 1),
        below=highest / (count + 1),
        pods=count,
    )
