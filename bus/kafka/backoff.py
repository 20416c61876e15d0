"""How long to wait before the next attempt."""

import random
from collections.abc import Iterator


def pauses(
    first_s: float = 0.2, most_s: float = 10.0, chance: random.Random | None = None
) -> Iterator[float]:
    """Endless waiting times in seconds: doubling from ``first_s`` to ``most_s``, each cut by up to a half.

    The cut is random, so that many collectors do not return to a restarted broker in step.
    """
    source = chance or random.Random()  # noqa: S311 - spreads load, guards nothing
    longest = first_s
    while True:
        yield longest * source.uniform(0.5, 1.0)
        longest = min(longest * 2, most_s)
