"""A line into the future for each of many series."""

from dataclasses import dataclass

import numpy as np

from streams.operators.columns.arrays import Bools, Floats


@dataclass(frozen=True, slots=True)
class Line:
    """``level`` now and ``slope_per_s``, shape (n,), NaN where there is none; ``announced`` says which lines
    are those to an announced exhaustion."""

    level: Floats
    slope_per_s: Floats
    announced: Bools

    def towards(self, level: Floats, capacity: Floats, left_s: Floats) -> "Line":
        """With the lines from ``level`` to ``capacity`` in ``left_s`` where that is known."""
        known = np.isfinite(left_s) & np.isfinite(capacity)
        slope = np.where(known, (capacity - level) / left_s, self.slope_per_s)
        return Line(np.where(known, level, self.level), slope, known)

    def at(self, ahead_s: Floats) -> Floats:
        """Where they are so long after now, shape (horizons, n)."""
        return self.level + self.slope_per_s * ahead_s[:, np.newaxis]
